//! The Gemini API: its answers.

mod answers;
