"""The database of measurements and winners: names and numbers, nothing of the generator."""

from collforge.db.errors import (
    Corrupt,
    DiskFull,
    Locked,
    NoDatabase,
    NotACollforgeDatabase,
    PublishedOnly,
    ReadOnly,
    SchemaTooNew,
    StoreError,
    Unverified,
)
from collforge.db.records import (
    MEASURED,
    PREDICTED,
    Choice,
    Lanes,
    MapPoint,
    Measurement,
    Result,
    RunRecord,
    Undecided,
    Verification,
    Winner,
)
from collforge.db.store import Store

__all__ = [
    "MEASURED",
    "PREDICTED",
    "Choice",
    "Corrupt",
    "DiskFull",
    "Lanes",
    "Locked",
    "MapPoint",
    "Measurement",
    "NoDatabase",
    "NotACollforgeDatabase",
    "PublishedOnly",
    "ReadOnly",
    "Result",
    "RunRecord",
    "SchemaTooNew",
    "Store",
    "StoreError",
    "Undecided",
    "Unverified",
    "Verification",
    "Winner",
]
