-- How the ranks of a launch were started, and behind which switches their nodes were.
ALTER TABLE run ADD COLUMN launcher TEXT NOT NULL DEFAULT '';

ALTER TABLE run ADD COLUMN pmi TEXT NOT NULL DEFAULT '';

ALTER TABLE run ADD COLUMN switches TEXT NOT NULL DEFAULT '[]';
