"""One page about some sessions, to send and to keep: a single HTML file that needs nothing else.

    from simulator.results.report.contents import gather, page
    Path("t3.html").write_text(page(gather("t3", runs, table(runs), figures)))

contents: what the page tells, read from the sessions, and the page as HTML, by `page.html.jinja` and `style.css`.
pictures: figures as SVG within a page. The same sessions give the same bytes.
"""
