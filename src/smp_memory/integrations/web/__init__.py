"""The web inspector `smp web`: a local site on which a person sees, understands and steers what agents remember.

    server          the listening socket, the one-time link, the loop that serves
    access          who may ask: Host, Origin, the link, the cookie, the token of forms; headers of every answer
    app             routes; a request becomes a `PageRequest`, an error a page
    html, layout    elements that escape their text; the frame of every page
    parts           what several pages show: a memory in a line, its score as bars, times, differences
    pages/          one module for each page
    actions         changes with a preview and a way back
    live            what any process writes, as events
    static/         style sheet and scripts

Guarantees: the server listens on loopback only. Nothing is answered without the cookie that a one-time link gives. All text of a store is
escaped, and no page loads anything from elsewhere (`Content-Security-Policy`). Looking does not count as use of a memory.
Pages work without scripts; scripts add search as you type, live updates, dialogs and keys.
"""
