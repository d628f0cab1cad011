-- The physical lanes of a system's nodes.

CREATE TABLE lanes (
    system INTEGER NOT NULL REFERENCES system (id),
    mpi_library INTEGER NOT NULL REFERENCES mpi_library (id),
    -- Physical lanes of a node.
    number INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number > 0),
    -- Bytes per second of a lane, in each direction.
    rate REAL NOT NULL CHECK (typeof(rate) = 'real' AND rate > 0),
    PRIMARY KEY (system, mpi_library)
) WITHOUT ROWID;
