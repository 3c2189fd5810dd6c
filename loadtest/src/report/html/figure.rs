//! A plot: drawn as SVG that stretches with the page, with its words beside it as HTML, so that they keep their size.

use std::fmt::{self, Write};

use serde_json::json;

use super::escape;
use super::scale::{Scale, Tick};

/// The drawing is so wide and so high, in units of its own.
const SIZE: f64 = 1000.0;

/// A plot. All that is drawn shares the places of `readings`.
pub struct Figure {
    pub title: &'static str,
    /// What it shows, in a sentence.
    pub note: String,
    pub x: Scale,
    pub x_ticks: Vec<Tick>,
    pub y: Scale,
    pub y_ticks: Vec<Tick>,
    pub shapes: Vec<Shape>,
    /// What is said of each place: where it is on the x axis, and its name.
    pub readings: Vec<(f64, String)>,
    /// Places on the x axis that have a name.
    pub marks: Vec<(f64, String)>,
    /// Whether it is as wide as the page.
    pub wide: bool,
}

/// What is drawn of one thing.
pub struct Shape {
    pub name: String,
    /// A class of `page.css` that gives the colour.
    pub class: &'static str,
    pub drawn: Drawn,
    /// For each place, in words; empty where there is nothing.
    pub values: Vec<String>,
}

pub enum Drawn {
    /// Through each place's value; broken where there is none.
    Line(Vec<Option<f64>>),
    /// The same, filled down to zero.
    Area(Vec<Option<f64>>),
    /// For each place a column: from and to on the x axis, from and to on the y axis.
    Columns(Vec<[f64; 4]>),
}

impl Figure {
    pub fn write(&self, out: &mut String) -> fmt::Result {
        let wide = if self.wide { " class=\"wide\"" } else { "" };
        write!(
            out,
            "<figure{wide}><figcaption><h2>{}</h2><p>{}</p></figcaption>",
            escape(self.title),
            escape(&self.note)
        )?;
        self.write_legend(out)?;
        let names: Vec<_> = self.shapes.iter().map(|shape| shape.name.as_str()).collect();
        let label = escape(&format!("{}: {}. {}", self.title, names.join(", "), self.note));
        let marked = if self.marks.is_empty() { "" } else { " marked" };
        write!(out, "<div class=\"chart{marked}\"><div class=\"y\">")?;
        for tick in &self.y_ticks {
            let minor = if tick.minor { " class=\"minor\"" } else { "" };
            write!(
                out,
                "<span{minor} style=\"bottom:{:.2}%\">{}</span>",
                100.0 * tick.place,
                escape(&tick.label)
            )?;
        }
        write!(
            out,
            "</div><div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"{label}\">"
        )?;
        self.write_drawing(out)?;
        for (at, name) in &self.marks {
            let side = if self.x.place(*at) > 0.8 { " left" } else { "" };
            write!(
                out,
                "<span class=\"mark{side}\" style=\"left:{:.2}%\"><i>{}</i></span>",
                100.0 * self.x.place(*at),
                escape(name)
            )?;
        }
        write!(out, "<span class=\"cursor\" hidden></span></div><div class=\"x\">")?;
        for tick in &self.x_ticks {
            // the last one must not stand out of the page
            let class = match (tick.minor, tick.place > 0.96 && tick.label.len() > 5) {
                (true, _) => " class=\"minor\"",
                (false, true) => " class=\"end\"",
                (false, false) => "",
            };
            write!(
                out,
                "<span{class} style=\"left:{:.2}%\">{}</span>",
                100.0 * tick.place,
                escape(&tick.label)
            )?;
        }
        write!(out, "</div></div>")?;
        self.write_readings(out)?;
        writeln!(out, "</figure>")
    }

    fn write_legend(&self, out: &mut String) -> fmt::Result {
        write!(out, "<ul class=\"legend\">")?;
        for shape in &self.shapes {
            let mark = match shape.drawn {
                Drawn::Columns(_) => "block",
                Drawn::Line(_) | Drawn::Area(_) => "line",
            };
            write!(
                out,
                "<li class=\"{}\"><i class=\"{mark}\"></i>{} <b></b></li>",
                shape.class,
                escape(&shape.name)
            )?;
        }
        write!(out, "<li class=\"at\"></li></ul>")
    }

    fn write_drawing(&self, out: &mut String) -> fmt::Result {
        write!(
            out,
            "<svg viewBox=\"0 0 {SIZE} {SIZE}\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"grid\" d=\""
        )?;
        for tick in &self.y_ticks {
            write!(out, "M0 {:.1}H{SIZE}", SIZE * (1.0 - tick.place))?;
        }
        write!(out, "\"/>")?;
        for shape in &self.shapes {
            match &shape.drawn {
                Drawn::Line(values) => {
                    let path = self.path(values, false);
                    write!(out, "<path class=\"line {}\" d=\"{path}\"/>", shape.class)?;
                    write!(
                        out,
                        "<path class=\"dots {}\" d=\"{}\"/>",
                        shape.class,
                        self.dots(values)
                    )?;
                }
                Drawn::Area(values) => {
                    write!(
                        out,
                        "<path class=\"area {}\" d=\"{}\"/>",
                        shape.class,
                        self.path(values, true)
                    )?;
                    write!(
                        out,
                        "<path class=\"line {}\" d=\"{}\"/>",
                        shape.class,
                        self.path(values, false)
                    )?;
                }
                Drawn::Columns(columns) => {
                    write!(out, "<path class=\"columns {}\" d=\"", shape.class)?;
                    for [from, to, low, high] in columns.iter().filter(|[_, _, low, high]| high > low) {
                        let (left, right) = (SIZE * self.x.place(*from), SIZE * self.x.place(*to));
                        let (bottom, top) = (self.height(*low), self.height(*high));
                        write!(out, "M{left:.1} {bottom:.1}V{top:.1}H{right:.1}V{bottom:.1}Z")?;
                    }
                    write!(out, "\"/>")?;
                }
            }
        }
        write!(out, "</svg>")
    }

    /// Units from the top.
    fn height(&self, value: f64) -> f64 {
        SIZE * (1.0 - self.y.place(value).clamp(0.0, 1.0))
    }

    /// Where each place's value stands, in units from the left and the top.
    fn points(&self, values: &[Option<f64>]) -> Vec<Option<(f64, f64)>> {
        let places = self.readings.iter().zip(values);
        let points = places.map(|((at, _), value)| value.map(|value| (SIZE * self.x.place(*at), self.height(value))));
        points.collect()
    }

    fn path(&self, values: &[Option<f64>], filled: bool) -> String {
        let mut path = String::new();
        for piece in self.points(values).split(|point| point.is_none()) {
            let mut piece = piece.iter().flatten();
            let Some((first, height)) = piece.next() else {
                continue;
            };
            // writing to a String does not fail
            let _ = match filled {
                true => write!(path, "M{first:.1} {SIZE}V{height:.1}"),
                false => write!(path, "M{first:.1} {height:.1}"),
            };
            for (x, y) in piece {
                let _ = write!(path, "L{x:.1} {y:.1}");
            }
            if filled {
                let _ = write!(path, "V{SIZE}Z");
            }
        }
        path
    }

    /// Values that have none beside them, of which a line shows nothing.
    fn dots(&self, values: &[Option<f64>]) -> String {
        let points = self.points(values);
        let alone = points.split(|point| point.is_none()).filter_map(|piece| match piece {
            [Some((x, y))] => Some(format!("M{x:.1} {y:.1}h0")),
            _ => None,
        });
        alone.collect()
    }

    /// What is shown beside the names when one points at a place.
    fn write_readings(&self, out: &mut String) -> fmt::Result {
        let places: Vec<_> = self
            .readings
            .iter()
            .map(|(at, _)| (self.x.place(*at) * 1e4).round() / 1e4)
            .collect();
        let names: Vec<_> = self.readings.iter().map(|(_, name)| name).collect();
        let values: Vec<_> = self.shapes.iter().map(|shape| &shape.values).collect();
        // no `<`: nothing in it can end the element
        let text = json!({"places": places, "names": names, "values": values})
            .to_string()
            .replace('<', "\\u003c");
        write!(out, "<script type=\"application/json\">{text}</script>")
    }
}
