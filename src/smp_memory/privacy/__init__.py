"""Privacy: redaction of secrets, anonymisation, visibility, the fence around recalled text, and the audit log.

All but `audit` is pure: nothing is read, written or logged. Guarantees of redaction and anonymisation: linear time for
any text, the same result for the same text, and a replaced value is reported by its kind only.
"""
