"""Texts that run as scripts if a page does not escape them, and a tripwire that notices it.

After the OWASP filter evasion cheat sheet and PortSwigger's: for the content of elements, quoted and unquoted
attributes, addresses, scripts, comments, and templates that are filled in twice.
"""

from playwright.sync_api import BrowserContext, Page

from tests.browser.waiting import undisturbed

_TRIPWIRE = """window.tripped = [];
Object.defineProperty(window, "xss", {value: (number) => window.tripped.push(String(number))});"""
_TRIPPED_AND_MADE = """() => [
    window.tripped,
    [...document.querySelectorAll("[data-xss], [href^='javascript:' i], xss")]
        .map((one) => one.outerHTML.slice(0, 200)),
]"""

# {} stands for a call that trips the wire; elements have a mark, so that they are found even if nothing runs.
_FORMS = (
    # the content of an element
    "<script data-xss>{}</script>",
    "<ScRiPt data-xss>{}</sCrIpT>",
    "<script data-xss >{}</script\t>",
    "<script/data-xss>{}</script>",
    "<<script data-xss>{};//<</script>",
    "<scr<script data-xss>ipt>{}</scr</script>ipt>",
    "<script data-xss src='data:text/javascript,{}'></script>",
    "<img data-xss src=x onerror={}>",
    "<img data-xss src=x onerror='{}'>",
    "<img/data-xss/src=x/onerror={}>",
    "<IMG DATA-XSS SRC=x ONERROR={}>",
    "<img data-xss src=`x` onerror={}//",
    "<img data-xss\nsrc=x\nonerror={}\n>",
    "<image data-xss src=x onerror={}>",
    "<svg data-xss onload={}>",
    "<svg data-xss/onload={}>",
    "<svg data-xss><script>{}</script></svg>",
    "<svg data-xss><animate onbegin={} attributeName=x dur=1s>",
    "<svg data-xss><style><img src=x onerror={}></style></svg>",
    "<math data-xss><mtext><table><mglyph><style><img src=x onerror={}></style></mglyph></table></math>",
    "<body data-xss onload={}>",
    "<iframe data-xss srcdoc='<script>parent.{}</script>'></iframe>",
    "<iframe data-xss src='javascript:parent.{}'></iframe>",
    "<details data-xss open ontoggle={}>x</details>",
    "<input data-xss autofocus onfocus={}>",
    "<select data-xss autofocus onfocus={}></select>",
    "<textarea data-xss autofocus onfocus={}></textarea>",
    "<video data-xss><source onerror={}></video>",
    "<audio data-xss src=x onerror={}></audio>",
    "<object data-xss data='javascript:{}'></object>",
    "<embed data-xss src='javascript:{}'>",
    "<marquee data-xss onstart={}>x</marquee>",
    "<style data-xss>@keyframes x{{}}</style><b data-xss style='animation-name:x' onanimationstart={}>x</b>",
    "<meta data-xss http-equiv=refresh content='0;url=javascript:{}'>",
    "<base data-xss href='javascript:{}//'>",
    "<form data-xss action='javascript:{}'><button>x</button></form>",
    "<a data-xss href='javascript:{}'>x</a>",
    "<a data-xss href='java\tscript:{}'>x</a>",
    "<xss onpointerenter={} style='display:block'>x</xss>",
    # out of an element or attribute of the page
    "</title><script data-xss>{}</script>",
    "</textarea><script data-xss>{}</script>",
    "</style><script data-xss>{}</script>",
    "</script><script data-xss>{}</script>",
    "--><script data-xss>{}</script><!--",
    "]]><script data-xss>{}</script>",
    '"><script data-xss>{}</script>',
    "'><script data-xss>{}</script>",
    '" data-xss autofocus onfocus="{}" x="',
    "' data-xss autofocus onfocus='{}' x='",
    "x data-xss onpointerover={} ",
    "` data-xss onfocus={} ",
    # a script or an address
    "';{};//",
    '";{};//',
    "\\';{};//",
    "${{{}}}",
    "javascript:{}",
    "JaVaScRiPt://%0a{}",
    "data:text/html,<script>{}</script>",
    # filled in a second time, by a template or as an entity
    "{{{{{}}}}}",
    "{{%print({})%}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "&lt;script data-xss&gt;{}&lt;/script&gt;",
    "&#60;img data-xss src=x onerror={}&#62;",
    "\\u003cimg data-xss src=x onerror={}\\u003e",
    "%3Cscript%20data-xss%3E{}%3C/script%3E",
    "\uff1cscript data-xss\uff1e{}\uff1c/script\uff1e",
)

#: Each calls ``xss`` with its own number.
PAYLOADS = tuple(form.format(f"xss({number})").strip() for number, form in enumerate(_FORMS))


def set_tripwire(context: BrowserContext) -> None:
    """Record every payload that runs, for ``check_untripped``; call it before the first page."""
    context.add_init_script(_TRIPWIRE)


def check_untripped(page: Page) -> None:
    """Fail if a payload was run, or has become an element of the page."""
    tripped, made = undisturbed(page, lambda: page.evaluate(_TRIPPED_AND_MADE))
    assert not tripped, f"{page.url} has run " + ", ".join(PAYLOADS[int(number)] for number in tripped)
    assert not made, f"{page.url} has made elements of texts:\n" + "\n".join(made)
