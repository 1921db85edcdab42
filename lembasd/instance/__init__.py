"""The pocket instance: a LLeMbas server small enough to run beside the device, for one person on one machine."""
