-- The hashes of a variant's C files, for reports of why a winner is stale.

CREATE TABLE source (
    fingerprint TEXT NOT NULL CHECK (typeof(fingerprint) = 'text' AND fingerprint <> ''),
    file TEXT NOT NULL CHECK (typeof(file) = 'text' AND file <> ''),
    hash TEXT NOT NULL CHECK (typeof(hash) = 'text' AND hash <> ''),
    PRIMARY KEY (fingerprint, file)
) WITHOUT ROWID;
