"""The latency of networks on a device: measured, and fitted by a cost model."""
