//! Numbers appended to names that are taken.

use std::collections::HashMap;
use std::sync::Arc;

use super::hash::SeededState;

/// The next number to try for each name, so that very many equal names cost no search each.
#[derive(Clone, Debug, Default)]
pub(crate) struct UniqueNames(HashMap<Box<str>, usize, SeededState>);

impl UniqueNames {
    /// Returns `base` if it is free, else the first free name of `{base}_2`, `{base}_3`, ...
    ///
    /// A name that was taken must not become free again.
    pub(crate) fn free(&mut self, base: &str, is_taken: impl Fn(&str) -> bool) -> Arc<str> {
        if !is_taken(base) {
            return base.into();
        }
        let mut number = self.0.get(base).copied().unwrap_or(2);
        let mut name = format!("{base}_{number}");
        while is_taken(&name) {
            number = number.saturating_add(1);
            name = format!("{base}_{number}");
        }
        self.0.insert(base.into(), number.saturating_add(1));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn repeated_names_need_few_lookups() {
        let (mut names, mut taken_names) = (UniqueNames::default(), HashSet::new());
        let lookups = Cell::new(0);
        let is_taken = |name: &str, taken_names: &HashSet<Arc<str>>| {
            lookups.set(lookups.get() + 1);
            taken_names.contains(name)
        };

        taken_names.insert("a_3".into());
        for _ in 0..1_000 {
            let name = names.free("a", |name| is_taken(name, &taken_names));
            assert!(taken_names.insert(name));
        }

        assert!(taken_names.contains("a") && taken_names.contains("a_1001"));
        assert!(lookups.get() < 3_000, "{} lookups", lookups.get());
    }
}
