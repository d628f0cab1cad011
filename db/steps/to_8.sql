-- The time of a call by the winner. It is known from the next decision on.
ALTER TABLE winner ADD COLUMN seconds REAL CHECK (seconds > 0);

DROP VIEW winner_view;

CREATE VIEW winner_view AS
SELECT
    system.name AS system,
    system.host_pattern AS host_pattern,
    mpi_library.name AS mpi,
    mpi_library.version AS mpi_version,
    layout.name AS layout,
    winner.collective AS collective,
    winner.bytes AS bytes,
    variant.family AS family,
    variant.parameters AS parameters,
    variant.fingerprint AS fingerprint,
    winner.ratio AS ratio,
    winner.ratio_low AS ratio_low,
    winner.ratio_high AS ratio_high,
    winner.launches AS launches,
    winner.decided AS decided,
    winner.evidence AS evidence,
    winner.seconds AS seconds
FROM winner
JOIN system ON system.id = winner.system
JOIN mpi_library ON mpi_library.id = winner.mpi_library
JOIN layout ON layout.id = winner.layout
JOIN variant ON variant.id = winner.variant;
