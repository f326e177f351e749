"""What tells that an agent is a person's: it names a system, a device or a browser.

A browser names the system that it runs on; so do apps, televisions and phones of every age. A program that asks for a
link by itself names itself. Phones have any words for names (`CUBOT`, `Butterfly`, `Astute`) and builds, so
these are left out before words of bots are looked for.
"""

from __future__ import annotations

import re
from typing import Final

# Patterns of re2, one a word; a dot stands for a blank. Systems.
_SYSTEMS = r"""
    android \badr.\d linux x11 windows \bwin(?:9x|nt|me|\d) \bwds.\d macintosh mac.?os mac_power \bmac.\d darwin
    \bppc\b powerpc iphone ipad ipod \biph\d \bi(?:pad)?os\b \btvos harmony \bcros\b bsd\b bsd\d sunos solaris
    \baix\b irix hp-ux os/2 amiga beos haiku morphos risc.os \bqnx cygwin syllable reactos openvms symbian
    symbos series.?[3468]0 blackberry \bbb10 playbook tizen \bbada\b webos web0s kaios maemo meego freertos palm
    \bbrew\b j2me \bmidp \bcldc \bgeos\b zaurus \bepoc pocket.?pc hiptop \brv:\d
"""
# Televisions, players, consoles, watches.
_DEVICES = r"""
    smart-?tv google.?tv apple.?tv hbbtv hybridcast ce-html netcast \broku bravia viera aquos vizio crkey
    chromecast \baft[a-z]{1,4}\d*\b netbox \bnet.?tv inettv \bstb\b \bdlna humax technisat philips panasonic
    toshiba grundig loewe vestel hisense sharp thomson boxee \bmag\d{3} \bsonos[;/] ^echo/ quicktime itunes
    winamp foobar2000 nsplayer tv\b tv[/_] player radio\b \bphone tablet airplay \bps[2345]\b applecoremedia
    stagefright exoplayer xbmc \bkodi\b zune walkman playstation \bpsp\b nintendo \bwii\b xbox sega skyworth
    changhong sagemcom technicolor kreatv \barris\b denon marantz yamaha \bbose\b onkyo pioneer harman funai
    carbrowser dreamcast dreampassport avefront planetweb
    \bouya\b kindle \bnook\b \bkobo\b pocketbook watch.?os \bwatch\d galaxy
"""
# Phones that name their maker first.
_PHONES = r"""
    nokia samsung \bsec- sonyericsson \bsony motorola \bmot- \blge?[-/] \bzte huawei honor lenovo alcatel \boppo
    \bvivo\b xiaomi redmi oneplus realme \btecno infinix
    ^(?:sie|siemens|sagem|sanyo|benq|nec|pantech|kyocera|kwc)\b \b(?:htc|asus|archos|lumia|padfone) \bgt-[a-z]\d
    ^lg[\s\da-z] device[\s_](?:model|brand) \bfoma\b \brim\d
    ^(?:acer|micromax|karbonn|lava|spice|tianyu|gionee|coolpad|haier|amoi|konka|tcl|dopod|casio|vertu|doro|audiovox)\b
    ^(?:treo|ericsson|mitsu|hutc|vk|telit|qtek|o2|fly|inq|zopo|itel|lephone|bird|meizu|mtk|k-touch)[-_\s/.\d]
    teleca profile/ configuration/ smm-mms docomo kddi softbank j-phone vodafone /screen-\d \d{3}x\d{3}
    \bmsm\d{4} \bwap\b \bwap[12] mobile
"""
# Engines of browsers, browsers that run on anything, and apps that say what they are in place of it.
_BROWSERS = r"""
    up\.browser netfront obigo openwave ucbrowser ucweb opera konqueror lynx/ \belinks ^links.\( w3m/ mosaic
    netscape msie browser[/\d] browser$ \bbrowser\b omniweb webexplorer arachne midori/ vimprobable
    ^(?:firefox|chrome|safari|edge|brave)$ \bmaui\b
    webkit gecko khtml presto firefox/\d vlc/
    ;.[uin][;)] dillo micromessenger portalmmm \bblazer avantgo \bfba[nv]/ dalvik cfnetwork gog.galaxy \bcronet/
"""
# An agent in which this finds nothing is a program's.
NAMES_A_SYSTEM: Final = "|".join(f"{_SYSTEMS} {_DEVICES} {_PHONES} {_BROWSERS}".split())

_ANDROID = b"android"
# What stands between Android's name and the model, and the model: a phone's name has no mark of an address in it.
_MODEL = re.compile(rb"[^;()]*(?:\([^;()]*\))?;(?: ?[a-z]{2}(?:[-_][a-z]{2})?;)?(?! ?\+?https?:)([^;()/:]*)")
_BUILD = re.compile(rb"\bbuild/[^;() ]*|\bcubot[\w]*")
_ADDRESS_OF_PLAYER = re.compile(rb"https?://(?:www\.)?(?:bsalsa\.com|xbmc\.org|kodi\.tv|qtweb\.net|ultrablock\.org)")
# Who gives out Internet Explorer writes an address of theirs among its marks; a bot writes `+` before its own, or a
# word of bots into it.
_EXPLORER = re.compile(rb"\(compatible; msie |\btrident/\d")
_ADDRESS_OF_MAKER = re.compile(
    rb"(?<!\+)(?:https?://|\bwww\.)(?![^;()\s]*(?:bot|crawl|spider|search|link|monitor|check|valid|scan|feed|index))[^;()\s]*"
)


def without_device(agent: bytes) -> bytes:
    """Returns an agent in lower case, without the model and the build of its phone.

    The addresses that some players and embedded browsers write into theirs are left out, too.
    """
    text = agent.lower()
    start = text.find(_ANDROID)
    if start >= 0:
        text = _BUILD.sub(b"", text)
        if model := _MODEL.match(text, start):
            text = text[: model.start(1)] + text[model.end(1) :]
    if b"://" not in text and b"www." not in text:
        return text
    text = _ADDRESS_OF_PLAYER.sub(b"", text)
    return _ADDRESS_OF_MAKER.sub(b"", text) if _EXPLORER.search(text) else text
