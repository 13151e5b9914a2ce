"""What a process tells about itself: log events, metrics, spans, and what is missing from answers.

Modules:

    event_log     structured log events, through `logging`
    json_logging  a formatter that writes log records as JSON
    metrics       counters and histograms of this process
    tracing       operations: duration, errors, slow ones, spans
    incomplete    unreadable entries and sessions that are gone, so that answers say that they are incomplete

Nothing is loaded with the package.
"""
