//! Stores that pass every call on to another store.

use std::sync::Arc;

use super::session_store::SessionStore;

/// Implements [`SessionStore`] by calling the store that the expression `$inner` evaluates to. In
/// this expression, `$store` is `self`.
macro_rules! forward_session_store {
    ([$($header:tt)*], |$store:ident| $inner:expr) => {
        #[async_trait::async_trait]
        $($header)* {
            async fn load(
                &self,
                id: &str,
            ) -> $crate::error::Result<Option<$crate::session::StoredSession>> {
                let $store = self;
                let inner = &$inner;
                inner.load(id).await
            }

            async fn append(
                &self,
                lease: &$crate::session::Lease,
                records: Vec<$crate::session::Record>,
            ) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.append(lease, records).await
            }

            async fn list(&self) -> $crate::error::Result<Vec<$crate::session::SessionInfo>> {
                let $store = self;
                let inner = &$inner;
                inner.list().await
            }

            async fn list_page(
                &self,
                query: $crate::session::ListQuery,
            ) -> $crate::error::Result<$crate::session::SessionPage> {
                let $store = self;
                let inner = &$inner;
                inner.list_page(query).await
            }

            async fn children(
                &self,
                id: &str,
            ) -> $crate::error::Result<Vec<std::sync::Arc<str>>> {
                let $store = self;
                let inner = &$inner;
                inner.children(id).await
            }

            async fn delete(&self, id: &str) -> $crate::error::Result<bool> {
                let $store = self;
                let inner = &$inner;
                inner.delete(id).await
            }

            async fn lease(&self, id: &str) -> $crate::error::Result<$crate::session::Lease> {
                let $store = self;
                let inner = &$inner;
                inner.lease(id).await
            }

            async fn is_leased(&self, id: &str) -> $crate::error::Result<bool> {
                let $store = self;
                let inner = &$inner;
                inner.is_leased(id).await
            }

            async fn revision(&self, id: &str) -> $crate::error::Result<Option<u64>> {
                let $store = self;
                let inner = &$inner;
                inner.revision(id).await
            }

            async fn save(
                &self,
                lease: &$crate::session::Lease,
                state: &$crate::session::AgentState,
            ) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.save(lease, state).await
            }

            async fn create(
                &self,
                id: &str,
                session: $crate::session::StoredSession,
            ) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.create(id, session).await
            }

            async fn fork(&self, from: &str, to: &str) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.fork(from, to).await
            }

            async fn fork_at(
                &self,
                from: &str,
                to: &str,
                messages: usize,
            ) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.fork_at(from, to, messages).await
            }

            async fn latest(
                &self,
                cwd: &str,
            ) -> $crate::error::Result<Option<$crate::session::SessionInfo>> {
                let $store = self;
                let inner = &$inner;
                inner.latest(cwd).await
            }

            async fn prune(&self, older_than: std::time::Duration) -> $crate::error::Result<usize> {
                let $store = self;
                let inner = &$inner;
                inner.prune(older_than).await
            }

            async fn export(&self, id: &str) -> $crate::error::Result<String> {
                let $store = self;
                let inner = &$inner;
                inner.export(id).await
            }

            async fn import(&self, id: &str, json: &[u8]) -> $crate::error::Result<()> {
                let $store = self;
                let inner = &$inner;
                inner.import(id, json).await
            }
        }
    };
}

#[cfg(any(
    feature = "jsonl",
    feature = "sqlite",
    feature = "postgres",
    feature = "redis"
))]
pub(super) use forward_session_store;

forward_session_store!([impl<T: SessionStore + ?Sized> SessionStore for Arc<T>], |store| **store);
