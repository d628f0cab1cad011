"""The page of `collforge report --html`: what a database says, in one file that needs no network.

- ``facts``: rows for the page, read from the database;
- ``charts``: the charts, as Vega-Lite specifications made by Altair;
- ``render``: the HTML, from ``page.html.j2``, ``page.css`` and ``page.js``.

Vega-Lite draws: its bundle comes with a Python package (vl-convert), so no CDN is needed; its SVG has roles and
labels for screen readers; and a chart is data, so no JavaScript is written for it.
"""
