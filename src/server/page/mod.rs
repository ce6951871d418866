//! The page: one response with its scripts and styles, which asks nothing of other servers.
//!
//! | file | what it has |
//! |---|---|
//! | `index.html`, `page.css` | the parts of the page that are always there; the looks of all |
//! | `view.js` | elements, icons, dialogs |
//! | `api.js`, `stream.js` | the routes; streams that survive lost connections |
//! | `state.js` | a session, and the changes that each message of a run makes |
//! | `markdown.js` | texts as elements |
//! | `view_*.js` | the conversation, tool calls, questions, the panel, the list of sessions |
//! | `surroundings.js` | the width, the colours, the voice for screen readers |
//! | `main.js` | the page as a whole |
//!
//! The scripts are joined to one module, so their names must differ. They have no build step;
//! [`squeeze`] removes what only readers of the source need, and is made for their conventions.

mod document;
mod respond;
mod squeeze;

pub(super) use respond::respond;
