// SPDX-License-Identifier: Apache-2.0
// Canvas: a figure in points, written by cairo as SVG or PDF.
#pragma once

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace compared {

struct Point {
  double x, y;
};
enum class Align { left, middle, right };

/// Line styles that differ in colour, dash and marker, so that each of the three alone distinguishes two lines. The
/// colours are Okabe and Ito's, which colour-blind readers can distinguish.
struct Style {
  double red, green, blue;
  std::array<double, 4> dash; ///< lengths of dashes and gaps; all 0: solid
  int marker;                 ///< 0 circle, 1 square, 2 triangle, 3 diamond
};
inline constexpr std::array<Style, 8> styles{{{0, .45, .70, {}, 0},
                                              {.84, .37, 0, {4, 2, 4, 2}, 1},
                                              {0, .62, .45, {1.5, 1.5, 1.5, 1.5}, 2},
                                              {.80, .47, .65, {6, 2, 1.5, 2}, 3},
                                              {.34, .71, .91, {}, 1},
                                              {.90, .62, 0, {4, 2, 4, 2}, 2},
                                              {.35, .35, .35, {1.5, 1.5, 1.5, 1.5}, 3},
                                              {0, 0, 0, {6, 2, 1.5, 2}, 0}}};

class Canvas {
 public:
  static constexpr double text_size = 7;

  Canvas(const std::string& path, double width, double height)
      : surface_(path.ends_with(".pdf") ? cairo_pdf_surface_create(path.c_str(), width, height)
                                        : cairo_svg_surface_create(path.c_str(), width, height),
                 cairo_surface_destroy),
        context_(cairo_create(surface_.get()), cairo_destroy) {
    if (!path.ends_with(".pdf")) cairo_svg_surface_set_document_unit(surface_.get(), CAIRO_SVG_UNIT_PT);
    cairo_select_font_face(context_.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context_.get(), text_size);
  }

  void ink(double red, double green, double blue) { cairo_set_source_rgb(context_.get(), red, green, blue); }
  void ink(const Style& style) { ink(style.red, style.green, style.blue); }

  double width_of(const std::string& text) {
    cairo_text_extents_t extents{};
    cairo_text_extents(context_.get(), text.c_str(), &extents);
    return extents.x_advance;
  }
  void text(Point at, const std::string& content, Align align = Align::left, double turned = 0) {
    const double back = align == Align::left ? 0 : width_of(content) * (align == Align::middle ? 0.5 : 1);
    cairo_save(context_.get());
    cairo_move_to(context_.get(), at.x, at.y);
    cairo_rotate(context_.get(), turned);
    cairo_rel_move_to(context_.get(), -back, 0);
    cairo_show_text(context_.get(), content.c_str());
    cairo_restore(context_.get());
  }
  void line(std::span<const Point> points, double width, std::array<double, 4> dash = {}) {
    if (points.empty()) return;
    cairo_set_line_width(context_.get(), width);
    cairo_set_dash(context_.get(), dash.data(), dash[0] > 0 ? static_cast<int>(dash.size()) : 0, 0);
    cairo_move_to(context_.get(), points.front().x, points.front().y);
    for (const Point& point : points.subspan(1)) cairo_line_to(context_.get(), point.x, point.y);
    cairo_stroke(context_.get());
  }
  void line(Point from, Point to, double width) {
    const std::array<Point, 2> points{from, to};
    line(points, width);
  }
  /// Draws a filled marker, or only its outline.
  void marker(Point at, int kind, double size, bool filled = true) {
    cairo_t* const of = context_.get();
    cairo_new_path(of);
    if (kind == 0) {
      cairo_arc(of, at.x, at.y, size, 0, 6.2831853);
    } else if (kind == 1) {
      cairo_rectangle(of, at.x - 0.9 * size, at.y - 0.9 * size, 1.8 * size, 1.8 * size);
    } else if (kind == 2) {
      cairo_move_to(of, at.x, at.y - 1.2 * size);
      cairo_line_to(of, at.x + 1.1 * size, at.y + 0.8 * size);
      cairo_line_to(of, at.x - 1.1 * size, at.y + 0.8 * size);
    } else {
      cairo_move_to(of, at.x, at.y - 1.3 * size);
      cairo_line_to(of, at.x + 1.3 * size, at.y);
      cairo_line_to(of, at.x, at.y + 1.3 * size);
      cairo_line_to(of, at.x - 1.3 * size, at.y);
    }
    cairo_close_path(of);
    cairo_set_line_width(of, 0.8);
    cairo_set_dash(of, nullptr, 0, 0);
    filled ? cairo_fill(of) : cairo_stroke(of);
  }

  /// Writes the file. Returns the error; empty if there is none.
  [[nodiscard]] std::string finish() {
    cairo_show_page(context_.get());
    context_.reset();
    cairo_surface_finish(surface_.get());
    const cairo_status_t status = cairo_surface_status(surface_.get());
    return status == CAIRO_STATUS_SUCCESS ? std::string{} : cairo_status_to_string(status);
  }

 private:
  std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface_;
  std::unique_ptr<cairo_t, decltype(&cairo_destroy)> context_;
};

} // namespace compared
