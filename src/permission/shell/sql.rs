//! Statements for databases.

/// Returns `true` if the statements only read and change tables of the database that is open, and
/// call nothing but functions that are known to open no file and to start no program.
pub(super) fn is_plain_sql(text: &str) -> bool {
    let text = text.trim();
    if is_description(text) {
        return true;
    }

    // A line of its own may be a command of the client.
    let is_one_line = !text.contains(['\n', '\r']);
    is_one_line
        && words(text).is_some_and(|words| words.split(|word| word == ";").all(is_plain_statement))
}

/// Returns `true` for `\d users` and `.schema users`, which describe tables.
fn is_description(text: &str) -> bool {
    const NAMES: &str = "\
        \\d \\d+ \\dt \\dt+ \\dn \\du \\di \\dv \\df \\l \\l+ \\conninfo .tables .schema .indexes \
        .databases";
    let (name, table) = text.split_once(' ').unwrap_or((text, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.*%".contains(c);
    NAMES.split_ascii_whitespace().any(|known| known == name) && table.chars().all(is_plain)
}

fn is_plain_statement(words: &[String]) -> bool {
    const VERBS: &str = "\
        select insert update delete explain with begin commit rollback end values show use create \
        drop alter";
    // What may be made, changed and dropped.
    const OBJECTS: &str = "table index view unique temp temporary";
    const PRAGMAS: &str = "\
        table_info table_xinfo table_list index_info index_list foreign_key_list integrity_check \
        quick_check";
    let is = |word: &str, list: &str| list.split_ascii_whitespace().any(|known| known == word);
    let Some(verb) = words.first().map(String::as_str) else {
        return true;
    };

    let second = words.get(1).map_or("", String::as_str);
    let is_pragma = verb == "pragma" && is(second, PRAGMAS);
    let has_object = !is(verb, "create drop alter") || is(second, OBJECTS);
    // Such as `select .. into outfile`.
    let writes_rows = verb == "insert" || verb == "with";
    let has_file = words.iter().any(|word| word == "into") && !writes_rows
        || words
            .iter()
            .any(|word| is(word, "outfile dumpfile program infile fsdir zipfile"));
    let is_index = verb == "create" && is(second, "index unique");
    // `insert into t (a)`, `create table t (a int)`, `create index i on t (a)`.
    let is_plain = |(before, word): (&str, &str)| {
        let is_table = match before {
            "into" | "table" | "references" => true,
            "exists" => verb == "create",
            "on" => is_index,
            "with" => verb == "with",
            _ => false,
        };
        is_table || is_pragma || is_plain_call(word)
    };
    (is(verb, VERBS) || is_pragma) && has_object && !has_file && calls(words).all(is_plain)
}

/// Returns the words before an opening parenthesis, with the word before each.
fn calls(words: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let text = |at: Option<usize>| at.and_then(|at| words.get(at)).map_or("", String::as_str);
    words
        .iter()
        .enumerate()
        .filter(|(_, word)| *word == "(")
        .map(move |(at, _)| (text(at.checked_sub(2)), text(at.checked_sub(1))))
}

/// Returns `true` if a word before a parenthesis is no function, or a known function.
fn is_plain_call(word: &str) -> bool {
    const KNOWN: &str = "\
        select from where and or not in any all exists as on over using values partition by set \
        join when then else case having union intersect except distinct with key unique check \
        primary foreign returning default filter is like between limit offset count sum avg min \
        max total group_concat string_agg array_agg json_agg jsonb_agg coalesce nullif ifnull \
        lower upper length trim ltrim rtrim substr substring replace concat round abs floor ceil \
        ceiling mod power sqrt random now date time datetime timestamp strftime julianday \
        date_trunc date_part extract to_char to_date age cast greatest least row_number rank \
        dense_rank lag lead first_value last_value ntile typeof printf format instr hex quote left \
        right lpad rpad reverse split_part position iif json_extract json_object json_array unnest \
        generate_series pg_size_pretty pg_database_size pg_relation_size pg_total_relation_size \
        current_database version database int integer bigint smallint decimal numeric varchar char \
        text float double real";
    let is_name = ["", ",", "(", ";"].contains(&word) || "=<>+-*/|%".contains(word);
    is_name || KNOWN.split_ascii_whitespace().any(|known| known == word)
}

/// Returns the words and marks, without texts in single quotes; names lose their quotes. `None` if
/// they are not certain: with backslashes, comments, dollars, or a quote in another or without its
/// end.
fn words(text: &str) -> Option<Vec<String>> {
    let is_odd = |quote: char| !text.matches(quote).count().is_multiple_of(2);
    if text.contains(['\\', '$', '#'])
        || text.contains("/*")
        || text.contains("--")
        || ['\'', '"', '`'].into_iter().any(is_odd)
    {
        return None;
    }

    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let word = match c {
            '\'' | '"' | '`' | '[' => {
                let end = if c == '[' { ']' } else { c };
                let name: String = chars.by_ref().take_while(|next| *next != end).collect();
                if name.contains(['\'', '"', '`']) {
                    return None;
                }
                let is_text = c == '\'';
                if is_text { "''" } else { name.as_str() }.to_ascii_lowercase()
            }
            c if c.is_alphanumeric() || "_.:".contains(c) => {
                words.last_mut()?.extend(c.to_lowercase());
                continue;
            }
            c if c.is_whitespace() => String::new(),
            c => c.to_string(),
        };
        words.extend([word, String::new()]);
    }

    words.retain(|word| !word.is_empty());
    Some(words)
}
