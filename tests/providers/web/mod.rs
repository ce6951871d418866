//! `web_fetch` and `internet_search`, with servers on the loopback interface.

mod fetch;
mod hostile;
mod html;
mod keys;
mod search;
mod search_services;
mod site;
mod unreachable;
