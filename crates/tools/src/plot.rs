//! The picture of a demonstration: throughput as in the papers' Figures 8 and 11, message rate, and bulk.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::demo::points::{Contender, Load, Points, Spread, Window};

const SIZE: (u32, u32) = (1280, 560);
const INK: RGBColor = RGBColor(33, 37, 41);
const FAINT: RGBColor = RGBColor(226, 230, 234);
const MUTED: RGBColor = RGBColor(100, 108, 116);
const FONT: &str = "Helvetica, Arial, sans-serif";

/// Colours that stay apart in grey and for the colour-blind; the marks differ as well.
const fn colour(contender: Contender) -> RGBColor {
    match contender {
        Contender::Cdp => RGBColor(0, 104, 150),
        Contender::Tcp => RGBColor(217, 95, 2),
        Contender::Udp => RGBColor(120, 120, 120),
    }
}

/// The picture as SVG.
///
/// # Errors
/// What the drawing library says; it does not depend on the figures.
pub(crate) fn throughput(points: &Points) -> Result<String, String> {
    let mut svg = String::new();
    draw(points, &mut svg).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(points: &Points, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    title(&root)?;
    let body = root.margin(78, 12, 16, 24);
    let (left, rest) = body.split_horizontally(560);
    let (middle, right) = rest.split_horizontally(430);
    sizes(
        &left,
        points,
        &Panel {
            caption: "Throughput",
            unit: "Mbit/s of user data",
            of: |w| w.mbit_per_second,
            is_logarithmic: false,
        },
    )?;
    sizes(
        &middle,
        points,
        &Panel {
            caption: "Messages",
            unit: "messages per second",
            of: |w| w.messages_per_second,
            is_logarithmic: true,
        },
    )?;
    bulk(&right, points)?;
    root.present()?;
    Ok(())
}

fn font(size: i32, ink: RGBColor) -> TextStyle<'static> {
    TextStyle { color: ink.to_backend_color(), ..TextStyle::from((FONT, size).into_font()) }
}

fn title(root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn std::error::Error>> {
    root.draw(&Text::new("CDP beside kernel TCP and UDP, by message size", (24, 18), font(24, INK)))?;
    let note = "two processes of one machine, loopback interface; medians, with bars from the least to the greatest round";
    root.draw(&Text::new(note, (24, 48), font(14, MUTED)))?;
    for (contender, x) in Contender::ALL.into_iter().zip([1040, 1115, 1190]) {
        root.draw(&PathElement::new([(x, 32), (x + 26, 32)], line(contender)))?;
        mark(root, contender, (x + 13, 32))?;
        root.draw(&Text::new(contender.name(), (x + 34, 24), font(16, INK)))?;
    }
    Ok(())
}

fn line(contender: Contender) -> ShapeStyle {
    let width = if contender == Contender::Cdp { 3 } else { 2 };
    colour(contender).stroke_width(width)
}

fn mark(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    contender: Contender,
    at: (i32, i32),
) -> Result<(), Box<dyn std::error::Error>> {
    let filled = colour(contender).filled();
    match contender {
        Contender::Cdp => area.draw(&Circle::new(at, 5, filled))?,
        Contender::Tcp => {
            area.draw(&Rectangle::new([(at.0 - 4, at.1 - 4), (at.0 + 4, at.1 + 4)], filled))?;
        }
        Contender::Udp => area.draw(&TriangleMarker::new(at, 6, filled))?,
    }
    Ok(())
}

/// One chart over message sizes.
struct Panel {
    caption: &'static str,
    unit: &'static str,
    of: fn(&Window) -> f64,
    is_logarithmic: bool,
}

type Point = (f64, Spread);

impl Panel {
    /// Where a value lies on the axis.
    fn y(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(1.0).log10() } else { value }
    }

    fn label(&self, y: f64) -> String {
        if self.is_logarithmic { decade(y) } else { grouped(y) }
    }

    fn points(&self, points: &Points, contender: Contender) -> Vec<Point> {
        let loads = points.loads().into_iter();
        loads
            .filter_map(|load| match load {
                Load::Messages(bytes) => {
                    Some(((bytes as f64).log2(), points.spread(contender, load, self.of)?))
                }
                Load::Bulk => None,
            })
            .collect()
    }

    fn range(&self, all: &[Vec<Point>]) -> std::ops::Range<f64> {
        let values = || all.iter().flatten().map(|(_, spread)| spread);
        let greatest = values().map(|spread| self.y(spread.max)).fold(1.0, f64::max);
        let least = values().map(|spread| self.y(spread.min)).fold(f64::INFINITY, f64::min);
        if self.is_logarithmic {
            (least.min(greatest) - 0.02).floor().max(0.0)..(greatest + 0.02).ceil()
        } else {
            0.0..greatest * 1.06
        }
    }
}

fn sizes(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    points: &Points,
    panel: &Panel,
) -> Result<(), Box<dyn std::error::Error>> {
    let all: Vec<Vec<Point>> = Contender::ALL.iter().map(|&c| panel.points(points, c)).collect();
    let range = panel.range(&all);
    // One label per decade, or about seven.
    let y_labels = if panel.is_logarithmic { decades(&range) + 1 } else { 7 };
    let mut chart = ChartBuilder::on(area)
        .caption(panel.caption, font(18, INK))
        .margin_right(24)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(-0.4..11.0, range)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(MUTED)
        .x_labels(7)
        .y_labels(y_labels)
        .x_label_formatter(&|x: &f64| format!("{:.0}", x.exp2()))
        .y_label_formatter(&|y: &f64| panel.label(*y))
        .label_style(font(14, INK))
        .x_desc("message size in bytes")
        .y_desc(panel.unit)
        .axis_desc_style(font(14, MUTED))
        .draw()?;
    for (contender, points) in Contender::ALL.into_iter().zip(&all).rev() {
        let at = |(x, spread): &Point| (*x, panel.y(spread.median));
        chart.draw_series(LineSeries::new(points.iter().map(at), line(contender)))?;
        for point in points {
            let (x, spread) = point;
            let bar = [(*x, panel.y(spread.min)), (*x, panel.y(spread.max))];
            chart.draw_series([PathElement::new(bar, colour(contender).stroke_width(1))])?;
            let pixel = chart.backend_coord(&at(point));
            let origin = area.get_pixel_range();
            mark(area, contender, (pixel.0 - origin.0.start, pixel.1 - origin.1.start))?;
        }
    }
    Ok(())
}

/// Whole decades of a logarithmic axis, of which there are few.
fn decades(range: &std::ops::Range<f64>) -> usize {
    (1..12).take_while(|&count| range.start + f64::from(count) <= range.end + 1e-6).count().max(1)
}

/// Three columns for bulk.
fn bulk(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    points: &Points,
) -> Result<(), Box<dyn std::error::Error>> {
    let spreads: Vec<(Contender, Spread)> = Contender::ALL
        .into_iter()
        .filter_map(|c| Some((c, points.spread(c, Load::Bulk, |w| w.mbit_per_second / 1000.0)?)))
        .collect();
    let greatest = spreads.iter().map(|(_, spread)| spread.max).fold(0.001, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Bulk", font(18, INK))
        .x_label_area_size(52)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..3.0, 0.0..greatest * 1.15)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .axis_style(MUTED)
        .x_labels(0)
        .y_labels(7)
        .y_label_formatter(&|y: &f64| grouped(*y))
        .label_style(font(14, INK))
        .y_desc("Gbit/s of user data")
        .axis_desc_style(font(14, MUTED))
        .draw()?;
    let centre = |vertical| Pos::new(HPos::Center, vertical);
    for (number, (contender, spread)) in (0..).zip(spreads) {
        let (left, right) = (f64::from(number) + 0.2, f64::from(number) + 0.8);
        let middle = (left + right) / 2.0;
        let column = Rectangle::new([(left, 0.0), (right, spread.median)], colour(contender).filled());
        chart.draw_series([column])?;
        let bar = [(middle, spread.min), (middle, spread.max)];
        chart.draw_series([PathElement::new(bar, INK.stroke_width(1))])?;
        let value = Text::new(
            three_figures(spread.median),
            (middle, spread.max + greatest * 0.02),
            font(14, INK).pos(centre(VPos::Bottom)),
        );
        chart.draw_series([value])?;
        let pixel = chart.backend_coord(&(middle, 0.0));
        let origin = area.get_pixel_range();
        let at = (pixel.0 - origin.0.start, pixel.1 - origin.1.start + 8);
        area.draw(&Text::new(contender.name(), at, font(14, INK).pos(centre(VPos::Top))))?;
    }
    Ok(())
}

/// A power of ten, such as `100 k`; nothing between them.
fn decade(exponent: f64) -> String {
    if (exponent - exponent.round()).abs() > 1e-6 {
        return String::new();
    }
    let power = exponent.round();
    let (unit, less) = match power {
        p if p >= 9.0 => (" G", 9.0),
        p if p >= 6.0 => (" M", 6.0),
        p if p >= 3.0 => (" k", 3.0),
        _ => ("", 0.0),
    };
    format!("{:.0}{unit}", 10_f64.powf(power - less))
}

fn three_figures(value: f64) -> String {
    let digits = if value >= 99.5 { 0 } else { 1 + usize::from(value < 9.95) };
    format!("{value:.digits$}")
}

/// A number with a thin space between groups of three digits.
fn grouped(value: impl Into<f64> + Display + Copy) -> String {
    let number = value.into();
    if number != 0.0 && number.abs() < 10.0 && number.fract().abs() > 1e-9 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Points {
        let mut points = Points::default();
        for (contender, factor) in [(Contender::Cdp, 3.0), (Contender::Tcp, 1.0), (Contender::Udp, 0.5)] {
            for round in 0..3 {
                for bytes in [1, 4, 16, 64, 256, 512, 1024, 1444, 1472] {
                    let rate = factor * 1e6 / (1.0 + bytes as f64 / 500.0) * (1.0 + round as f64 / 20.0);
                    points.windows.push(Window {
                        contender,
                        load: Load::Messages(bytes),
                        round,
                        size_bytes: bytes,
                        mbit_per_second: rate * bytes as f64 * 8.0 / 1e6,
                        messages_per_second: rate,
                        lost_share: 0.0,
                    });
                }
                points.windows.push(Window {
                    contender,
                    load: Load::Bulk,
                    round,
                    size_bytes: 1 << 17,
                    mbit_per_second: 20_000.0 / factor,
                    messages_per_second: 1.0,
                    lost_share: 0.0,
                });
            }
        }
        points
    }

    #[test]
    fn the_picture_names_contenders_axes_and_units() {
        let svg = throughput(&points()).unwrap();
        for text in [
            "<svg",
            "CDP",
            "TCP",
            "UDP",
            "message size in bytes",
            "Mbit/s of user data",
            "messages per second",
            "Bulk",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        if let Ok(path) = std::env::var("WEFT_PLOT") {
            std::fs::write(path, &svg).unwrap();
        }
    }

    #[test]
    fn a_picture_of_nothing_is_still_a_picture() {
        assert!(throughput(&Points::default()).unwrap().ends_with("</svg>\n"));
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(grouped(12_345.0), "12\u{2009}345");
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(2.5), "2.5");
        assert_eq!((decade(5.0).as_str(), decade(6.0).as_str(), decade(5.5).as_str()), ("100 k", "1 M", ""));
        assert_eq!(three_figures(9.876), "9.88");
        assert_eq!(three_figures(123.4), "123");
    }
}
