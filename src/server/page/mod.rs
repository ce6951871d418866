//! The page: one response with its scripts and styles, which loads nothing from other servers.
//!
//! | file | what it has |
//! |---|---|
//! | `index.html`, `page.css` | the parts of the page that are always there; the styles |
//! | `view.js` | elements, icons, dialogs |
//! | `api.js`, `stream.js` | the routes; streams that survive lost connections |
//! | `state.js` | a session, and the changes that each message of a run makes |
//! | `markdown.js` | texts as elements |
//! | `view_*.js` | the conversation, tool calls, questions, the panel, the list of sessions, the status |
//! | `layout.js`, `theme.js`, `speaker.js` | drawers and columns; the colors; the voice for screen readers |
//! | `main.js` | the page as a whole |
//!
//! The scripts are joined to one module, so top-level names must be unique across the files. There
//! is no build step: [`minify`] minifies the sources when the server first needs the page.

mod document;
mod minify;
mod respond;

pub(super) use respond::respond;
