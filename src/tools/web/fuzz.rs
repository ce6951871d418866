//! Random hostile pages.

use fastrand::Rng;
use reqwest::Url;

use crate::util::Cancellation;
use crate::util::fuzz::fuzz;

use super::markdown::convert;

const TAGS: [&str; 40] = [
    "a",
    "b",
    "i",
    "p",
    "div",
    "span",
    "table",
    "tr",
    "td",
    "th",
    "tbody",
    "caption",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "form",
    "button",
    "select",
    "option",
    "svg",
    "math",
    "mi",
    "template",
    "title",
    "pre",
    "code",
    "textarea",
    "script",
    "style",
    "noscript",
    "plaintext",
    "frameset",
    "h1",
    "blockquote",
    "img",
    "br",
    "nobr",
    "body",
];
const TEXTS: [&str; 24] = [
    "text",
    " ",
    "\n",
    "&amp;",
    "&#x0;",
    "&notit;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE x>",
    "<",
    "</",
    "<?",
    "*",
    "_",
    "`",
    "|",
    "\0",
    "é",
    "\u{202e}",
    "[x](y)",
    "=\"",
    "'>",
];
const ATTRIBUTES: [&str; 10] = [
    " a",
    " href=//x/y",
    " src='data:a'",
    " style=\"a\"",
    " id=a",
    " class",
    " xlink:href=a",
    " encoding=text/html",
    " =",
    " a=\"",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(..from.len())]
}

fn page(rng: &mut Rng) -> String {
    let power = rng.u32(..=16).min(rng.u32(..=16));
    let size = rng.usize(1..=1 << power);
    let mut html = String::new();
    while html.len() < size {
        let (tag, other_tag) = (pick(rng, &TAGS), pick(rng, &TAGS));
        let room = (size - html.len()) / 8 + 1;
        match rng.u8(..12) {
            0 => html.push_str(&format!("<{tag}>").repeat(rng.usize(1..=room))),
            1 => html.push_str(&format!("<{tag}><{other_tag}>").repeat(rng.usize(1..=room))),
            2 => html.push_str(&format!("</{tag}>").repeat(rng.usize(1..=room))),
            3 => html.push_str(&pick(rng, &TEXTS).repeat(rng.usize(1..=room))),
            4 => {
                let attributes = (0..rng.usize(1..=room)).map(|n| format!(" a{n}"));
                html.push_str(&format!("<{tag}{}>", attributes.collect::<String>()));
            }
            5 => html.push_str(&format!("<{tag}{}>", pick(rng, &ATTRIBUTES))),
            6 => html.push_str(&format!("</{tag}>")),
            7 => html.push(rng.char('\0'..='\u{ffff}')),
            8 | 9 => html.push_str(pick(rng, &TEXTS)),
            _ => html.push_str(&format!("<{tag}>")),
        }
    }

    html
}

#[test]
fn random_pages_are_converted_without_panic() {
    let base = Url::parse("http://host/").expect("an address");
    // As in the tool: enough stack for the nesting that the limits allow.
    fuzz("HTML", 300, 64 * 1024 * 1024, |rng| {
        let html = page(rng);
        std::hint::black_box(convert(&html, &base, &Cancellation::default()).text.len());
        html.len()
    });
}
