"""What a process tells about itself: log events, metrics, spans, and what is missing from answers.

Modules:

    json_logging  a formatter that writes log records as JSON
    telemetry     counters, histograms, structured log events, and operations: duration, errors, slow ones, spans
    incomplete    unreadable entries and sessions that are gone, so that answers say that they are incomplete

Nothing is loaded with the package.
"""
