//! Options as rules to deny and to ask see them: in any order, under any name, or left out.

use super::shell::{GIT_GLOBAL_VALUES, Word};

/// Short options and the long ones that mean the same, per program: what rules are written about.
const SAME: &[(&str, &str)] = &[
    ("rm", "r=R=--recursive f=--force i=--interactive d=--dir"),
    ("cp", "r=R=--recursive f=--force a=--archive"),
    ("chmod", "R=--recursive"),
    ("chown", "R=--recursive"),
    (
        "git",
        "f=--force=--force-with-lease d=--delete D=--delete n=--no-verify q=--quiet a=--all m=--message",
    ),
    (
        "curl",
        "o=--output k=--insecure d=--data X=--request T=--upload-file F=--form",
    ),
    ("grep", "r=R=--recursive"),
    ("docker", "f=--force v=--volume"),
    ("npm", "g=--global f=--force"),
];

/// Whether the flags `given` hold `wanted`, alone, among others or under its other name.
pub(super) fn has_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let same = SAME
        .iter()
        .find(|(name, _)| *name == program)
        .map_or("", |(_, groups)| *groups);
    if let Some(name) = wanted.strip_prefix("--") {
        let short = same
            .split(' ')
            .find(|group| group.split('=').any(|option| option == wanted));
        return given.iter().any(|flag| {
            let flag_name = flag.split('=').next().unwrap_or_default();
            if let Some(long) = flag_name.strip_prefix("--") {
                flag_name == wanted
                    || flag == wanted
                    || (!name.contains('=') && long.len() > 1 && name.starts_with(long))
                    || short.is_some_and(|group| group.split('=').any(|option| option == flag_name))
            } else {
                short.is_some_and(|group| {
                    group
                        .split('=')
                        .any(|option| option.len() == 1 && flag[1..].contains(option))
                })
            }
        });
    }
    if given.iter().any(|flag| flag == wanted) {
        return true;
    }
    wanted[1..].chars().all(|letter| {
        let group = same
            .split(' ')
            .find(|group| group.split('=').any(|option| option == letter.to_string()));
        given.iter().any(|flag| {
            if flag.starts_with("--") {
                let name = flag.split('=').next().unwrap_or_default();
                group.is_some_and(|group| {
                    group.split('=').any(|option| {
                        option.len() > 1 && name.len() > 3 && option.starts_with(name)
                    })
                })
            } else {
                flag[1..].contains(letter)
                    || group.is_some_and(|group| {
                        group
                            .split('=')
                            .any(|option| option.len() == 1 && flag[1..].contains(option))
                    })
            }
        })
    })
}

/// Options before the subcommand that take the next word as their value.
const GLOBAL_VALUES: &[(&str, &str)] = &[
    ("git", GIT_GLOBAL_VALUES),
    (
        "docker",
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    ),
    (
        "podman",
        "--connection -c --url --root --runroot --log-level",
    ),
    (
        "kubectl",
        "-n --namespace --context --cluster --kubeconfig --user -s --server --token --as --as-group --request-timeout --cache-dir",
    ),
    (
        "npm",
        "--prefix -C --registry --userconfig --globalconfig --cache --loglevel -w --workspace",
    ),
    ("pnpm", "-C --dir --filter -F"),
    ("yarn", "--cwd"),
    ("cargo", "--config -Z -C --color --manifest-path"),
    ("make", "-C --directory -f --file -j"),
    ("systemctl", "-H --host -M --machine --root"),
    ("apt", "-o --option -c --config-file -t"),
    ("apt-get", "-o --option -c --config-file -t"),
    (
        "aws",
        "--profile --region --endpoint-url --output --ca-bundle",
    ),
    ("gcloud", "--project --account --configuration"),
    ("terraform", "-chdir"),
    ("helm", "-n --namespace --kube-context --kubeconfig"),
    ("pip", "--proxy --log --cache-dir --python"),
    ("go", "-C"),
    ("gh", "-R --repo"),
    ("ip", "-n --netns"),
    ("tmux", "-L -S -f -c"),
];

/// The words as given but for the program's directory, and without options before the subcommand.
pub(super) fn variants(argv: &[Word]) -> Vec<Vec<Word>> {
    let mut plain = argv.to_vec();
    if let Some(name) = argv[0].basename() {
        plain[0] = Word::from_text(name.clone());
        if let Some((_, values)) = GLOBAL_VALUES.iter().find(|(known, _)| *known == name) {
            let mut at = 1;
            while let Some(word) = plain.get(at) {
                let prefix = word.literal_prefix();
                if !prefix.starts_with('-') {
                    break;
                }
                at += 1 + usize::from(values.split(' ').any(|known| known == prefix));
            }
            if at > 1 && at < plain.len() {
                let mut skipped = vec![plain[0].clone()];
                skipped.extend_from_slice(&plain[at..]);
                return vec![plain, skipped];
            }
        }
    }
    vec![plain]
}
