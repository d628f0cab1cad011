"""The probes that figures of the papers need, in the form of collforge.tuner.probes."""
