"""One page about some sessions, to send and to keep: a single HTML file that needs nothing else.

    from simulator.results.report.contents import gather, page
    Path("t3.html").write_text(page(gather("t3", runs, table(runs), figures)))

The page is `page.html.jinja` with `style.css`. The same sessions give the same bytes.
"""
