"""Exports as the products document them, in small."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

# `visit:non-orphan --format=csv`: newest first.
SHLINK_VISITS = f"""\
Date,"Potential bot","User agent",Referer,Country,Region,City,"Visited URL","Redirect URL",Type
2026-02-03T10:00:05+01:00,,"{BROWSER}",https://t.co,Germany,Berlin,Berlin,https://s.test/abc?x=1,https://long.test/,valid_short_url
2026-02-02T08:30:00+00:00,"Potential bot","some, crawler/1.4",,Unknown,Unknown,Unknown,https://s.test/abc,Unknown,valid_short_url
2026-02-01T23:59:59+00:00,,"{BROWSER}",,Unknown,Unknown,Unknown,https://other.test/with/slash,Unknown,valid_short_url
not a date,,,,,,,https://s.test/abc,,valid_short_url
"""
# "Export visits" of the web client.
SHLINK_VISITS_SHOWN = f"""\
"browser","os","date","userAgent","referer","country","region","city","latitude","longitude","potentialBot","visitedUrl","type"
"Firefox","Linux","2026-02-03T10:00:05+01:00","{BROWSER}","t.co","Germany","Berlin","Berlin",52.5,13.4,false,"https://s.test/abc?x=1",
"Others","Others","2026-02-02T08:30:00+00:00","some, crawler/1.4","Direct","Unknown","Unknown","Unknown",,,true,"https://s.test/abc",
"Firefox","Linux","2026-02-01T23:59:59+00:00","{BROWSER}","Direct","Unknown","Unknown","Unknown",,,false,"https://other.test/with/slash",
"Firefox","Linux","2026-02-01T20:00:00+00:00","{BROWSER}","Direct","Unknown","Unknown","Unknown",,,false,"https://s.test/","base_url"
"""
SHLINK_LINKS = """\
createdAt,title,shortUrl,shortCode,longUrl,tags,visits
2020-01-01T00:00:00+00:00,,https://s.test/abc,abc,https://long.test/,,12
2021-01-01T00:00:00+00:00,,https://s.test/old,old,https://long.test/,,40
2021-01-01T00:00:00+00:00,,https://s.test/new,new,https://long.test/,,0
"""
SHLINK_VISITS_ANSWER = {
    "visits": {
        "data": [
            {
                "referer": None,
                "date": "2026-02-03T10:00:05+01:00",
                "userAgent": BROWSER,
                "visitLocation": None,
                "potentialBot": False,
                "visitedUrl": "https://s.test/abc",
            }
        ],
        "pagination": {"currentPage": 1, "pagesCount": 1},
    }
}
SHLINK_LINKS_ANSWER = {
    "shortUrls": {
        "data": [
            {"shortCode": "abc", "visitsSummary": {"total": 12, "nonBots": 10, "bots": 2}},
            {"shortCode": "old", "visitsCount": 40},
        ]
    }
}
YOURLS_LOG = f"""\
click_id,click_time,shorturl,referrer,user_agent,ip_address,country_code
1,2026-02-01 23:59:59,ozh,direct,"{BROWSER}",203.0.113.1,FR
2,2026-02-02 08:30:00,ozh,https://t.co,"{CRAWLER}",203.0.113.2,
3,2026-02-03 09:00:05,Ozh,direct,"{BROWSER}",203.0.113.1,FR
"""
YOURLS_URL = """\
keyword;url;title;timestamp;ip;clicks
ozh;https://ozh.test;A; title;2019-01-01 00:00:00;203.0.113.1;100
none;https://ozh.test;B;2019-01-01 00:00:00;203.0.113.1;5
""".replace("A; title", "A title")
YOURLS_STATS = {
    "links": {
        "link_1": {"shorturl": "http://sho.rt/ozh", "url": "https://ozh.test", "title": "A", "clicks": "100"},
        "link_2": {"shorturl": "http://sho.rt/none", "url": "https://ozh.test", "title": "B", "clicks": 5},
    },
    "stats": {"total_links": "2", "total_clicks": "105"},
    "statusCode": "200",
}
KUTT_LINKS = {
    "limit": 10,
    "skip": 0,
    "total": 2,
    "data": [
        {"address": "qs", "id": "uuid-1", "link": "https://kutt.test/qs", "visit_count": 30},
        {"address": "zz", "id": "uuid-2", "link": "https://kutt.test/zz", "visit_count": 0},
    ],
}
KUTT_STATS = {
    "lastDay": {"stats": {}, "views": [0] * 23 + [3], "total": 3},
    "updatedAt": "2026-02-03T12:00:00.000Z",
    "address": "qs",
    "visit_count": 30,
}
KUTT_LINKS_TABLE = 'id,address,target,visit_count\n7,qs,https://long.test,30\n8,"a,b",https://long.test,2\n'
KUTT_VISITS_TABLE = """\
id,countries,created_at,updated_at,link_id,user_id,referrers,total,br_chrome
1,"{""de"": 4}",2026-02-01 23:10:11,2026-02-01 23:50:00,7,1,"{""direct"": 4}",4,4
2,"{""fr"": 2}",2026-02-02T08:59:59.999Z,2026-02-02 08:59:59,8,1,{},2,2
3,{},2026-02-02 08:00:00,2026-02-02 08:00:00,99,1,{},5,5
"""
# An hour in which Kutt lost a country, as it does when one comes that the hour's first visit did not have.
KUTT_VISITS_WITH_WORDS = """\
id,countries,created_at,updated_at,link_id,user_id,referrers,total,br_chrome,br_other,os_ios,os_windows
1,"{""de"":3, ""unknown"": 1, ""fr"": null}",2026-02-01 23:10:11,,7,1,"{""direct"":2, ""news[dot]example"":3}",5,4,9,4,1
"""
BITLY_LINES = "\n".join(
    json.dumps(answer)
    for answer in (
        {
            "bitlink": "bit.ly/3abc",
            "units": -1,
            "unit": "day",
            "unit_reference": "2026-02-03T00:00:00+0000",
            "link_clicks": [
                {"clicks": 9, "date": "2025-10-02T00:00:00+0000"},
                {"clicks": 0, "date": "2025-10-01T00:00:00+0000"},
                {"clicks": 4, "date": "2025-09-30T00:00:00+0000"},
            ],
        },
        {"bitlink": "bit.ly/3abc", "units": -1, "unit": "day", "unit_reference": "", "total_clicks": 20},
        {"bitlink": "brand.example/only-total", "units": -1, "unit": "day", "total_clicks": 6},
        {
            "bitlink": "bit.ly/x",
            "units": 3,
            "unit": "month",
            "link_clicks": [{"clicks": 1, "date": "2026-02-01T00:00:00+0000"}],
        },
    )
)
GOATCOUNTER_CSV = f"""\
2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,FirstVisit,Date
/abc?x=1,A title,0,"{BROWSER}",Firefox 140,Linux,1-2,0,,,"1280,768,1",AR,1,2026-02-01T23:59:59Z
click-banana,,1,"{BROWSER}",Firefox 140,Linux,1-2,0,,,"1280,768,1",AR,1,2026-02-02T08:30:00Z
/abc,A title,0,"{CRAWLER}",,,1-3,0,,,,AR,1,2026-02-03T09:00:05Z
/,Home,0,"{BROWSER}",,,1-3,0,,,,AR,1,2026-02-03T09:00:05Z
"""


def goatcounter_zip() -> bytes:
    """The JSON export: paths, and their hits by hour and referrer."""
    parts = {
        "info.json": json.dumps({"export_version": "1.0", "goatcounter_version": "2.7"}),
        "paths.jsonl": '{"id": 211, "path": "/abc", "title": "A"}\n{"id": 9, "event": true, "path": "click-banana"}\n',
        "hit_stats.jsonl": "".join(
            json.dumps({"hour": hour, "path_id": path, "ref_id": ref, "count": count}) + "\n"
            for hour, path, ref, count in (
                ("2026-02-01T23:00:00Z", 211, 1, 4),
                ("2026-02-02T08:00:00Z", 211, 2, 1),
                ("2026-02-02T08:00:00Z", 9, 1, 3),
            )
        ),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as written:
        for name, text in parts.items():
            written.writestr(f"export/{name}", text)
    return packed.getvalue()


# As Plausible's export names its files and columns; dates are days of the site's zone.
PLAUSIBLE_PAGES = """\
"date","hostname","page","visits","visitors","pageviews","total_scroll_depth","total_scroll_depth_visits"
"2026-02-01","s.example","/abc",7,6,9,0,0
"2026-02-02","s.example","/caf%C3%A9?x=1",2,2,2,0,0
"2026-02-01","b.example","/abc",1,1,1,0,0
"2026-02-03","s.example","/",5,5,5,0,0
"""
PLAUSIBLE_GOALS = """\
"date","name","link_url","path","visitors","events"
"2026-02-01","Purchase","","",3,4
"""


def plausible_zip() -> bytes:
    """The whole export: a zip file of such tables."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("imported_visitors_20260201_20260203.csv", '"date","visitors"\n"2026-02-01",6\n')
        written.writestr("imported_pages_20260201_20260203.csv", PLAUSIBLE_PAGES)
        written.writestr("imported_custom_events_20260201_20260203.csv", "\ufeff" + PLAUSIBLE_GOALS)
    return packed.getvalue()


def written(folder: Path, **files: str | bytes | Mapping[str, object]) -> list[Path]:
    """Writes files, `name_ext=...` as name.ext, and returns their paths."""
    paths = []
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        data = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        paths.append(path)
    return paths
