//! What is known about Anthropic's models.

use crate::model::{ModelProfile, Prices};

/// Name prefix, most output tokens, USD per million input and output tokens: Anthropic's model
/// and price lists. The first prefix that fits counts.
const MODELS: &[(&str, u32, f64, f64)] = &[
    ("claude-opus-4-1", 32_000, 15.0, 75.0),
    ("claude-opus-4-2", 32_000, 15.0, 75.0),
    ("claude-opus-4-0", 32_000, 15.0, 75.0),
    ("claude-opus-4", 64_000, 5.0, 25.0),
    ("claude-sonnet-4", 64_000, 3.0, 15.0),
    ("claude-haiku-4", 64_000, 1.0, 5.0),
    ("claude-3-7-sonnet", 64_000, 3.0, 15.0),
    ("claude-3-5-sonnet", 8_192, 3.0, 15.0),
    ("claude-3-5-haiku", 8_192, 0.8, 4.0),
    ("claude-3-opus", 4_096, 15.0, 75.0),
    ("claude-3-haiku", 4_096, 0.25, 1.25),
];

/// The context window of every model in the list.
const WINDOW: u64 = 200_000;

/// The profile of `model`. Of a name that is not in the list only the window is assumed.
///
/// The cache's prices follow from the others: a tenth of the input price to read, a quarter more
/// to write.
pub(super) fn profile(model: &str) -> ModelProfile {
    let profile = ModelProfile::default();
    let Some((_, output, input_price, output_price)) =
        MODELS.iter().find(|(prefix, ..)| model.starts_with(prefix))
    else {
        return match model.starts_with("claude-") {
            true => profile
                .with_context_window(WINDOW)
                .with_max_output_tokens(32_000),
            false => profile,
        };
    };
    let prices =
        Prices::new(*input_price, *output_price).with_cache(input_price * 0.1, input_price * 1.25);
    profile
        .with_context_window(WINDOW)
        .with_max_output_tokens(*output)
        .with_prices(prices)
}
