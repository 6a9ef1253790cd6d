//! Strings that make an SVG: shapes and lines of text are all there is.

use crate::layout::shorten;
use nearfar_figures::escape;
use std::fmt::Write as _;

const STYLE: &str = "rect{shape-rendering:crispEdges}text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#16191f;font-size:12px}\
    .title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#59606d}.strong{font-weight:600}.in{fill:#fff;\
    font-size:11px}.box{fill:#f6f7f9;stroke:#d5d9e0}.frame{fill:none;stroke:#d5d9e0}.grid{stroke:#d5d9e0;fill:none}\
    .line{stroke:#16191f;fill:none}.dash{stroke:#16191f;fill:none;stroke-dasharray:5 3}.near{fill:#2b6cb0}\
    .far{fill:#c2570c}.unknown{fill:url(#hatch)}.wait{fill:#d5d9e0}.way-l0{stroke:#a4cf9b}.way-l1{stroke:#55ad8b}\
    .way-l2{stroke:#2d8790}.way-l3{stroke:#345f8c}.way-l4{stroke:#43206e}.way-lu{stroke:url(#hatch)}.l0{fill:#a4cf9b}\
    .l1{fill:#55ad8b}.l2{fill:#2d8790}.l3{fill:#345f8c}.l4{fill:#43206e}.good{fill:#1a6e50;stroke:#1a6e50}.bad{fill:#c2570c;stroke:#c2570c}\
    .none{fill:#8a919e;stroke:#8a919e}.phase{fill:#2b4a78;fill-opacity:.6}.low{fill:#aac4df}.medium{fill:#2b6cb0}\
    .high{fill:#c2570c}.n0{fill:#16877a}.n1{fill:#8456a8}.n2{fill:#a67c00}.n3{fill:#c2418c}.n4{fill:#5b6b1e}\
    .n5{fill:#455a7d}.n6{fill:#8d5524}.n7{fill:#4c9aa8}";

const HATCH: &str = "<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><path d=\"M0 0V4\" stroke=\"#8a919e\" stroke-width=\"1.5\"/></pattern></defs>";

/// A picture that grows downward.
pub(super) struct Drawing {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

/// Where a text is fixed.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    /// With its title; what is drawn begins at [`Drawing::TOP`].
    pub(super) fn new(width: f64, title: &str) -> Drawing {
        let mut d = Drawing { width, height: 0.0, title: title.to_owned(), body: String::new() };
        // Half of the letters' height is their width, about.
        let letters = ((width - 20.0) / 8.6) as usize;
        d.text(10.0, 22.0, "title", Anchor::Start, &shorten(title, letters));
        d
    }

    /// Below the title.
    pub(super) const TOP: f64 = 36.0;

    fn reach(&mut self, y: f64) {
        self.height = self.height.max(y);
    }

    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.reach(y + height);
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// A cell whose strength says how much, from 0 to 1.
    pub(super) fn cell(&mut self, class: &str, (x, y): (f64, f64), side: f64, strength: f64) {
        self.reach(y + side);
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{side:.1}\" height=\"{side:.1}\" fill-opacity=\"{strength:.2}\"/>"
        );
    }

    /// A path; `height` is how far down it goes.
    pub(super) fn path(&mut self, class: &str, d: &str, height: f64) {
        self.reach(height);
        if !d.is_empty() {
            let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
        }
    }

    /// A way of this width.
    pub(super) fn way(&mut self, class: &str, d: &str, width: f64) {
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"{d}\" fill=\"none\" stroke-width=\"{width:.1}\"/>"
        );
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.reach(y1.max(y2));
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64) {
        let _ = writeln!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        self.reach(y + 4.0);
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>",
            escape(text)
        );
    }

    /// A line of small text below everything.
    pub(super) fn foot(&mut self, text: &str) {
        let y = self.height + 14.0;
        self.text(10.0, y, "small", Anchor::Start, text);
    }

    /// Which colour is what.
    pub(super) fn keys(&mut self, keys: &[(&str, String)]) {
        let y = self.height + 16.0;
        let mut x = 10.0;
        for (class, words) in keys {
            let wide = 24.0 + 6.4 * words.chars().count() as f64;
            self.rect(class, (x, y - 9.0), (11.0, 11.0));
            self.text(x + 15.0, y, "small", Anchor::Start, words);
            x += wide;
        }
    }

    pub(super) fn finish(self) -> String {
        let (width, height) = (self.width, self.height + 10.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n{HATCH}\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// The class of a node's colour, by its position; they repeat after eight.
pub(super) fn node_class(position: Option<usize>) -> String {
    position.map_or("unknown".to_owned(), |p| format!("n{}", p % 8))
}

/// Text as XML that shows it.
fn escape(text: &str) -> String {
    escape::xml(&escape::line(text))
}
