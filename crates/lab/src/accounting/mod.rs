//! What a run cost: processor, memory, device.
