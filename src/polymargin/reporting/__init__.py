"""What a report is made of: facts, measurements, drawings."""
