"""The web inspector `smp web`: a local site on which a person sees, understands and steers what agents remember.

    server          the listening socket, the one-time link, the loop that serves
    access          who may ask: Host, Origin, the link, the cookie, the token of forms; headers of every answer
    app             routes; a request becomes a `PageRequest`, an error a page
    renderer        pages from Jinja2 templates, which escape every value
    parts           values as templates show them: times and sizes in words, scores, differences
    forms           changes with a preview and a way back
    lookup          one memory, wherever it is, and its relations
    timeline        the memories of a session in the order of their times
    pages/          what each page shows and does
    live            what any process writes, as events
    templates/      the pages; `layout.html` is the frame of all of them, `parts.html` what several show
    static/         style sheet and scripts

Guarantees: the server listens on loopback only. Nothing is answered without the cookie that a one-time link gives. All text of a store is
escaped, and no page loads anything from elsewhere (`Content-Security-Policy`). Looking does not count as use of a memory.
Pages work without scripts; scripts add search as you type, live updates, dialogs and keys.
"""
