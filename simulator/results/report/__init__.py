"""One page about some sessions, to send and to keep: a single HTML file that needs nothing else.

    from simulator.results.report.contents import gather
    from simulator.results.report.page import page
    Path("t3.html").write_text(page(gather("t3", runs, table(runs), figures)))

contents: what the page tells, read from the sessions. pictures: figures as SVG within a page. page: both as HTML, by
`page.html.jinja` and `style.css`. The same sessions give the same bytes.
"""
