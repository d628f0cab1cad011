"""The database of measurements and winners: names and numbers, nothing of the generator."""

from collforge.db.errors import (
    Corrupt,
    DiskFull,
    Locked,
    NoDatabase,
    NotACollforgeDatabase,
    ReadOnly,
    SchemaTooNew,
    StoreError,
    Unverified,
)
from collforge.db.records import (
    Choice,
    Lanes,
    Measurement,
    Result,
    RunRecord,
    Undecided,
    Verification,
    Winner,
)
from collforge.db.store import Store

__all__ = [
    "Choice",
    "Corrupt",
    "DiskFull",
    "Lanes",
    "Locked",
    "Measurement",
    "NoDatabase",
    "NotACollforgeDatabase",
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
