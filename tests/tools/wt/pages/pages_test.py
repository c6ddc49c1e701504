"""The pages of the measuring tools in a browser. Usage: pages_test.py BROWSER FOLDER

FOLDER has timeline.html, roofline.html, roofline_bare.html (without a file of the machine),
doctor.html, diff.html, tape.html, doctor_well.html where the doctor has found nothing, look.html where kernels count, and
lab.html where there are labs. Each is opened in both schemes and at
two widths; nothing may be loaded, logged or cut off, and searches, zoom and details must work.
"""
import os
import sys

from browser import Browser

browser = None
folder = ""
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)
        print("FAILED:", what)


def luminance(page, selector, style):
    """Of a color of an element, 0 to 1."""
    red, green, blue = page.get(
        f"getComputedStyle(document.querySelector('{selector}')).{style}.match(/[0-9.]+/g).slice(0,3).map(Number)")
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def everywhere(name, ready, look=None):
    """In both schemes, wide and narrow: quiet, not wider than the window, ink against the page."""
    for dark in (False, True):
        page = browser.open(os.path.join(folder, name), dark=dark)
        page.wait(ready)
        where = f"{name}, {'dark' if dark else 'light'}"
        paper, ink = (luminance(page, "body", style) for style in ("backgroundColor", "color"))
        check(f"{where}: paper {paper}, ink {ink}", paper < 0.2 and ink > 0.7 if dark else paper > 0.9 and ink < 0.3)
        if look:
            look(page, where)
        page.resize(400, 800)
        page.wait("innerWidth === 400")
        for width in (400, 1280):
            page.resize(width, 800)
            page.wait(f"innerWidth === {width} && document.documentElement.clientWidth <= {width}")
            wide = page.get("document.documentElement.scrollWidth")
            check(f"{where}: {wide} wide in a window of {width}", wide <= width)
        for fault in page.faults():
            check(f"{where}: {fault}", False)
        page.close()


def search(page, where, text, shown, hidden):
    """`shown` holds while the text is searched for, and so does `hidden`; neither before."""
    check(f"{where}: {hidden} before a search", not page.get(hidden))
    page.type("#search", text)
    page.wait(shown)
    page.wait(hidden)
    page.type("#search", "no such words")
    page.wait("document.getElementById('hits').textContent === 'no hit'")
    page.type("#search", "")
    page.wait(f"!({hidden})")


def timeline(page, where):
    canvas = "document.getElementById('c').dataset"
    page.wait(f"{canvas}.from !== undefined")
    span = f"({canvas}.to-{canvas}.from)"
    whole = page.get(span)
    x, y = page.place("#c")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    page.wait(f"{span} < {whole * 0.9}")
    near = page.get(span)
    page.click(*page.place("#out"))
    page.wait(f"{span} > {near * 1.2}")
    page.click(*page.place("#in"))
    page.click(*page.place("#in"))
    page.wait(f"{span} < {near * 1.2}")
    begin = page.get(f"+{canvas}.from")
    page.get("document.activeElement.blur()")
    page.key("ArrowRight", 39)
    page.wait(f"+{canvas}.from > {begin}")
    page.key("0", 48)
    page.wait(f"{span} === {whole}")
    # A search marks what has the text; enter goes to the first of it and shows its details.
    page.type("#search", "linear.backward")
    page.wait(f"+{canvas}.hits > 0")
    page.key("Enter", 13)
    page.wait(f"+{canvas}.selected >= 0")
    page.wait("document.querySelector('#details h2').textContent.includes('linear.backward')")
    page.wait("document.querySelector('#details dl').textContent.includes('took')")
    page.type("#search", "no such words")
    page.wait(f"{canvas}.hits === '0' && document.getElementById('hits').textContent === 'no hit'")
    page.key("Escape", 27)
    page.key("Escape", 27)
    page.wait(f"{canvas}.selected === '-1'")
    # Somewhere on the first row of the first track is an operator: its facts are shown under the pointer.
    page.key("0", 48)
    left, top, width = page.get("(r=>[r.left,r.top,r.width])(document.getElementById('c').getBoundingClientRect())")
    for part in range(40):
        page.move(left + 160 + (width - 180) * part / 40, top + 38)
        if page.get("!document.getElementById('tip').hidden"):
            break
    page.wait("document.getElementById('tip').textContent.includes('took')")


def roofline(page, where):
    page.wait("document.querySelectorAll('#rows tr').length > 3")
    roofs = page.get("[...document.querySelectorAll('.roof')].map(r=>r.dataset.roof)")
    check(f"{where}: roofs {roofs}", roofs == ([] if "bare" in where else ["copy", "f64"]))
    check(f"{where}: says how to get roofs",
          page.get("document.getElementById('why').textContent.includes('wt bench machine')") == ("bare" in where))
    search(page, where, "linear",
           "[...document.querySelectorAll('#rows tr:not([hidden]) th')].every(t=>t.textContent.includes('linear'))",
           "document.querySelectorAll('.point.off').length > 0")
    page.move(*page.place(".point[data-name='linear']"))
    page.wait("!document.getElementById('tip').hidden")
    said = page.get("document.getElementById('tip').textContent")
    for part in ("linear", "of kernels", "FLOPs a byte", "GFLOP/s"):
        check(f"{where}: {part} in {said}", part in said)
    page.click(*page.place("#head th:first-child button"))
    page.wait("document.querySelector('#head th').ariaSort === 'ascending' ||"
              " document.querySelector('#head th').getAttribute('aria-sort') === 'ascending'")
    names = page.get("[...document.querySelectorAll('#rows th')].map(t=>t.textContent)")
    check(f"{where}: rows in the order of names: {names}", names == sorted(names))
    page.click(*page.place("#pick button:nth-child(2)"))
    page.wait("[...document.querySelectorAll('#rows th')].some(t=>t.textContent.startsWith('matmul:'))")


def doctor(page, where):
    page.wait("document.querySelectorAll('.findings li').length > 0")
    check(f"{where}: no curve of rates", page.get("!!document.querySelector('figure svg.chart path.line')"))
    search(page, where, "loss-flat", "!document.getElementById('loss-flat').hidden",
           "[...document.querySelectorAll('.findings li')].some(f=>f.hidden)")
    page.move(*page.place("figure svg.chart"))
    page.wait("document.querySelector('.chart .hover').textContent.includes(' at ')")
    page.click(*page.place("#loss-flat .copy"))
    page.wait("document.querySelector('#loss-flat .copy').textContent !== 'copy'")


def well(page, where):
    check(f"{where}: does not say so", page.get("document.body.textContent.includes('Nothing found')"))


def diff(page, where):
    # The difference of the last row is the largest: no other row has it.
    last = page.get("document.querySelector('[data-searched] tr:last-child td:nth-child(2)').textContent")
    search(page, where, last, "document.querySelectorAll('[data-searched] tr:not([hidden])').length > 0",
           "document.querySelectorAll('[data-searched] tr[hidden]').length > 0")
    page.move(*page.place("svg.chart"))
    page.wait("document.querySelector('.chart .hover').textContent.includes(' at ')")


def lab(page, where):
    """The report of a lab that did not get all points."""
    rows = page.get("document.querySelectorAll('.verdicts tr').length")
    failed = page.get("document.querySelectorAll('.verdicts .failed').length")
    check(f"{where}: {failed} of {rows} cases failed", rows == 10 and failed == 2)
    check(f"{where}: no source", page.get("document.querySelector('pre').textContent.includes('parts[i] = hook(parts[i])')"))
    check(f"{where}: no data", page.get("JSON.parse(document.getElementById('data').textContent).wt_lab_report") == 1)


def look(page, where):
    check(f"{where}: no pictures", page.get("document.querySelectorAll('svg.access').length > 3"))
    check(f"{where}: no warps", page.get("!!document.querySelector('svg.phases path.barrier')"))
    # A count of the listing leads to its picture.
    link = page.get("document.querySelector('.listing a').getAttribute('href')")
    page.click(*page.place(".listing a"))
    page.wait(f"location.hash === {link!r}")
    page.wait("!!document.querySelector('.patterns figure:target svg.access')")
    inside = page.get("(r=>r.top>=0&&r.top<innerHeight)(document.querySelector('figure:target').getBoundingClientRect())")
    check(f"{where}: the picture is not in the window", inside)


def tape(page, where):
    # Dots stand beside their rows, and what is kept leads to what it is.
    ends = page.get("(b=>[b('.tape circle:last-of-type'),b('.rows>div:last-child')])(s=>(r=>r.top+r.height/2)(document.querySelector(s).getBoundingClientRect()))")
    check(f"{where}: the last dot is {ends[0] - ends[1]:.1f} px off its row", abs(ends[0] - ends[1]) < 2)
    link = page.get("document.querySelector('.rows a').getAttribute('href')")
    page.get("document.querySelector('.rows a').click()")
    page.wait(f"location.hash === {link!r}")
    page.wait("!!document.querySelector('.keeps tr:target')")


def main():
    global browser, folder
    program, folder = sys.argv[1:]
    with Browser(program) as browser:
        everywhere("timeline.html", "document.getElementById('details').textContent", timeline)
        everywhere("roofline.html", "document.querySelector('#chart .point')", roofline)
        everywhere("roofline_bare.html", "document.querySelector('#chart .point')", roofline)
        everywhere("doctor.html", "true", doctor)
        if os.path.exists(os.path.join(folder, "doctor_well.html")):
            everywhere("doctor_well.html", "true", well)
        everywhere("diff.html", "true", diff)
        everywhere("tape.html", "true", tape)
        if os.path.exists(os.path.join(folder, "look.html")):
            everywhere("look.html", "true", look)
        if os.path.exists(os.path.join(folder, "lab.html")):
            everywhere("lab.html", "true", lab)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
