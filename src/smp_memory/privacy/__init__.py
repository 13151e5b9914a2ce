"""Who may still see this? Secrets leave a text before it is written, names leave a copy before it is passed on.

`redact` takes secrets out of what is about to be stored; `patterns`, `assignments` and `numbers` say what one looks
like, `plausible` whether a value could really be one, `own_patterns` checks what a store's settings add. `anonymise`
makes a copy in which people, projects and places have placeholders; `placeholders` remembers which. All of these are
pure: text comes in, text goes out, nothing is read, written or logged. `audit` keeps the log of what was taken away or
handed out, without content.
Guarantees: time linear in the text, whatever it says; the same text gives the same result; what is replaced is named
by its kind only, never shown.
"""
