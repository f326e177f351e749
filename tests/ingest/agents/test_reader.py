"""Which browser, app and kind of device an agent names."""

from __future__ import annotations

import pytest

from ingest.agents.bots import bot_judge
from ingest.agents.reader import AgentReader, device_of

ANDROID = (
    "Mozilla/5.0 (Linux; Android 15; CPH2581 Build/AP3A.240617.008; wv) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Version/4.0 Chrome/141.0.7390.122 Mobile Safari/537.36"
)
IOS = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.fixture(scope="module")
def reader() -> AgentReader:
    return AgentReader()


@pytest.mark.parametrize(
    ("agent", "app"),
    [
        (f"{ANDROID} MetaIAB Facebook", "Facebook"),
        (f"{ANDROID} [FB_IAB/FB4A;FBAV/569.0.0.42.72;IABMV/1;]", "Facebook"),
        (f"{IOS} [FBAN/FBIOS;FBAV/460.0.0.31.103;FBBV/1;FBDV/iPhone14,2]", "Facebook"),
        (f"{ANDROID} [FB_IAB/Orca-Android;FBAV/400.0.0.1;]", "Messenger"),
        (f"{IOS} [FBAN/MessengerForiOS;FBAV/400.0]", "Messenger"),
        (f"{ANDROID} Instagram 406.0.0.58.159 Android (35/15; 480dpi; 1080x2400; OPPO)", "Instagram"),
        (f"{IOS} Barcelona 312.0.0.28.115 (iPhone14,2; iOS 17_5)", "Threads"),
        (f"{ANDROID} musical_ly_2023105030 BytedanceWebview/d8a21c6", "TikTok"),
        (f"{ANDROID} trill_310503 JsSdk/1.0 NetType/WIFI", "TikTok"),
        (f"{IOS} Snapchat/12.70.0.31 (like Safari/8617)", "Snapchat"),
        (f"{IOS} Twitter for iPhone/10.20", "X"),
        (f"{ANDROID} TwitterAndroid", "X"),
        (f"{IOS} [LinkedInApp]/9.29.1", "LinkedIn"),
        (f"{IOS} [Pinterest/iOS]", "Pinterest"),
        (f"{IOS} Reddit/Version 2024.1/iOS", "Reddit"),
        (f"{ANDROID} Line/13.5.1/IAB", "LINE"),
        (f"{ANDROID} MicroMessenger/8.0.40 WeChat/arm64", "WeChat"),
        (f"{IOS} KAKAOTALK 10.4.5", "KakaoTalk"),
        (f"{IOS} GSA/300.0.598994205 Safari/604.1", "Google app"),
        (f"{ANDROID} Viber/20.9.0", "Viber"),
        (f"{ANDROID} Telegram-Android/10.0 (Samsung SM; Android 13)", "Telegram"),
        (
            f"{MAC} Slack/4.35.131 Chrome/118.0 Electron/27.0 Safari/537.36 AppleSilicon Sonic Slack_SSB/4.35.131",
            "Slack",
        ),
        (f"{MAC} discord/0.0.306 Chrome/78.0 Electron/7.1.11 Safari/537.36", "Discord"),
        (ANDROID, "Chrome"),
        (IOS, "Safari"),
    ],
)
def test_a_browser_inside_an_app_has_its_name_and_is_a_person(reader: AgentReader, agent: str, app: str) -> None:
    assert reader.read(agent).browser == app
    assert reader.read(agent).device in ("phone", "desktop")
    assert bot_judge().bot(agent) is None


@pytest.mark.parametrize(
    ("agent", "device"),
    [
        (
            "TV Bro/1.0 Mozilla/5.0 (Linux; Android 11; SHIELD Android TV Build/RQ1A; wv) Chrome/90.0 Safari/537.36",
            "tv",
        ),
        ("Mozilla/5.0 (Linux; Android 12; Philips Google TV TA1) Chrome/114.0 Mobile Safari/537.36", "tv"),
        ("Mozilla/5.0 (Linux; Android 9; AFTMM Build/PS7242; wv) Chrome/70.0 Mobile Safari/537.36", "tv"),
        ("Mozilla/5.0 (Linux; Android 7.1.2; AFTKMST12) Silk/73.5.7 like Chrome/73.0 Safari/537.36", "tv"),
        ("Mozilla/5.0 (Linux; Android 9; MiTV-AXSO1) Chrome/84.0 Mobile Safari/537.36", "tv"),
        ("HbbTV/1.4.1 (;Panasonic;VIERA 2019;d.704;4b01-0003 0040-0000;)", "tv"),
        ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 Chrome/94.0 Safari/537.36", "tv"),
        ("Mozilla/5.0 (webOS/1.4.0; U; en-US) AppleWebKit/532.2 Version/1.0 Safari/532.2 Pre/1.0", "other"),
        ("Roku/DVP-12.5 (12.5.5.4174-C2)", "tv"),
        ("Mozilla/5.0 (Linux; Android 6.0; Letv X500) Chrome/49.0 Mobile Safari/537.36", "phone"),
        ("Mozilla/5.0 (Linux; Android 9; myT6 DTV) Chrome/84.0 Mobile Safari/537.36", "phone"),
        ("Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; WOW64; Trident/4.0; Tablet PC 2.0)", "desktop"),
        ("Mozilla/5.0 (Linux; Android 12; SM-T870) Chrome/106.0 Safari/537.36", "tablet"),
        (f"{ANDROID} Instagram 406.0.0.58.159 Android (35/15; 480dpi; 1080x2400; OPPO)", "phone"),
        ("Mozilla/5.0 (Android 14; Tablet; rv:130.0) Gecko/130.0 Firefox/130.0", "tablet"),
    ],
)
def test_a_device_is_what_the_words_say(agent: str, device: str) -> None:
    assert device_of(agent) == device
