"""What people would pick instead, each with its most durable settings: how it is run, and how it is spoken to."""
