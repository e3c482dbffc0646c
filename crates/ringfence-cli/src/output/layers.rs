use anstyle::{AnsiColor, Style};
use ringfence_types::{Layer, LayerStatus};

use super::Table;

/// A layer's status in the words of `doctor`.
pub(crate) fn status_word(status: LayerStatus) -> &'static str {
    match status {
        LayerStatus::Enforced => "works",
        LayerStatus::Partial => "partly",
        LayerStatus::Missing => "missing",
        LayerStatus::NotRequested => "not needed",
    }
}

/// Colour that underlines the word.
pub(crate) fn status_style(status: LayerStatus) -> Style {
    match status {
        LayerStatus::Enforced => AnsiColor::Green.on_default(),
        LayerStatus::Partial => AnsiColor::Yellow.on_default(),
        LayerStatus::Missing => AnsiColor::Red.on_default(),
        LayerStatus::NotRequested => Style::new().dimmed(),
    }
}

/// One line a layer: name, status, detail.
pub(crate) fn layer_lines<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> String {
    let mut table = Table::default();
    for layer in layers {
        table.row([
            (layer.name.as_str(), Style::new()),
            (layer.status.as_str(), status_style(layer.status)),
            (&layer.detail, Style::new()),
        ]);
    }
    table.render()
}
