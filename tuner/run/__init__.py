"""Jobs to measurements: launches through ReFrame, their results stored, until every problem is settled."""
