//! Programs that read: files, texts, the state of the system.

pub(super) const ROWS: &str = "\
echo true [ basename dirname seq yes whoami id uname arch nproc uptime groups tty which type whereis exit return break continue shift umask ulimit times jobs wait kill sleep printf lsof test false cd pushd popd pwd printenv set unset read mapfile readarray declare typeset local export readonly trap eval alias ldd getconf locale tput clear dirs df free cal top ping | H | text |
pkill pgrep killall | W | text | -fxlnoiqvauegstPU
ps | H | ps text |
hostname | W | none | -fisIAdy --fqdn --short
date | W | read no:0,1,2,3,4,5,6,7,8,9 | -uRI -dr:text -f:names --date:text --file:names --reference:read --utc --iso-8601?text --rfc-3339:text -s:text!effect --set:text!effect
source . | H | read |
cat tac nl head tail od hexdump | H | show | -cnw:text
zcat | H | show/ending | -r!links --recursive!links
xzcat bzcat | H | show/ending |
lz4cat | W | show/ending | -dkfqvcm --rm!edit --decompress --force --keep --quiet --verbose --stdout --to-stdout --multiple
zstdcat | W | show/ending | -dkfqvcC -T:text -o:write --output-dir-flat:write --rm!edit --decompress --force --keep --quiet --verbose --stdout
strings | W | show no:@ | -afow -nteTsd:text --all --bytes:text --radix:text --encoding:text
base64 base32 basenc | W | show | -diD -w:text --decode --wrap:text --ignore-garbage
less more | X | show no:+ | -NSRFXEeKMmiIJLqrsGgnwW -oO:write --log-file:write --LOG-FILE:write --tabs:text --quit-if-one-screen --chop-long-lines --RAW-CONTROL-CHARS --no-init
rev expand unexpand comm join cmp | H | read/shown | -dfcst:text --format:text --printf:text
cksum md5 md5sum sha1sum sha256sum sha512sum sum b2sum | H | read/shown | -bctwz --check --tag --quiet --status
cut | H | read/shown | -snz -bcdf:text --delimiter:text
fold | H | read/shown | -bs -w:text
paste | H | read/shown | -sz -d:text
column | H | read/shown | -txendJL -sNocRHTEWOlrip:text --table --json --separator:text --output-separator:text --table-columns:text
stat readlink realpath | H | read | -dfcst:text --format:text --printf:text
wc | H | read/shown | -clmwL --files0-from:names
tr | H | text |
bc | X | read | -lqsw --mathlib --quiet --standard --warn
file | W | read/shown | -bikLhzsprN0 --mime --mime-type --mime-encoding --brief --dereference --uncompress -f:names
xxd | W | read write/shown | -bEeipuC -R:text -clsgo:number
diff colordiff | W | read/links/shown | -uaiwbBNqsycpdtTZE0 -UIxW:text -rR!links --recursive!links --unified?text --color?text --brief --ignore-all-space --ignore-space-change --ignore-blank-lines --ignore-case --exclude:pattern --label:text --side-by-side --suppress-common-lines --minimal --width:text --strip-trailing-cr --context?text --new-file --text --report-identical-files --from-file:read --to-file:read
du | H | read=. | -dX:text --max-depth:text --exclude:pattern
ls dir vdir | H | read=. | -IwT:text --ignore:pattern -R!tree --recursive!tree -L!follow --dereference!follow
tree | W | read/tree=. | -adfhFDsCAlpugtrUvxinJXQN -LPI:text --dirsfirst --du --prune --noreport --gitignore --charset:text --filelimit:text -o:write -R!hidden -H:text
grep egrep fgrep zgrep xzgrep bzgrep zstdgrep | H | pattern read/ending/shown=. | -ABCm:number -e:pattern!first -f:read!first -d:text!tree -D:text -r!tree -R!links --recursive!tree --dereference-recursive!links --directories:text!tree --regexp:pattern!first --file:read!first --include:pattern --exclude:pattern --exclude-dir:pattern --exclude-from:read --max-count:text --after-context:text --before-context:text
rg | X | pattern read/visible/shown=. | -inlcvwsSUFHNIopPx0a -L!follow -ABCmjMdE:text -e:pattern!first -f:read!first -t:kind -Tr:text -g:glob -z!hidden --search-zip!hidden --glob:glob --iglob:glob --type:kind --type-not:text --replace:text --sort:text --sortr:text --max-count:text --max-depth:text --max-filesize:text --context:text --after-context:text --before-context:text --regexp:pattern!first --file:read!first --files!first --threads:text --color:text --colors:text --encoding:text --max-columns:text --ignore-file:read --hidden!dot -.!dot --no-ignore!dot -u!dot --unrestricted!dot --no-ignore-vcs --files-with-matches --files-without-match --count --count-matches --ignore-case --smart-case --case-sensitive --word-regexp --line-regexp --fixed-strings --line-number --no-line-number --no-heading --heading --json --multiline --multiline-dotall --pcre2 --invert-match --only-matching --null --null-data --text --quiet --no-filename --with-filename --no-messages --stats --vimgrep --follow!follow --trim --column --pretty --passthru --type-list!first --sort-files --crlf --context-separator:text --debug --no-config --one-file-system --max-columns-preview --byte-offset --binary
ack rgrep ugrep ug rga | X | pattern read/tree/shown=. | -ilLcvwsSQHhon -ABCm:number --ignore:pattern --ignore-dir:text --type:text --nogroup --nocolor --color --nobreak --noheading --literal --column --count --files-with-matches --rust --python --js --java --go --ruby --cc --cpp --html --css
fd fdfind | X | pattern read/visible=. | -Iuags0iplFq1 -L!follow -edtESczjo:text -H!dot --hidden!dot --type:text --extension:text --exclude:pattern --max-depth:text --min-depth:text --no-ignore --glob --full-path --absolute-path --follow!follow --color:text --size:text --changed-within:text --changed-before:text --print0 --fixed-strings --case-sensitive --ignore-case --max-results:text --list-details
sort gsort | X | show | -bdfgiMhnrRVcCmsuz -kSt:text -T:write -o:write --output:write --key:text --field-separator:text --reverse --unique --numeric-sort --human-numeric-sort --general-numeric-sort --version-sort --ignore-case --stable --zero-terminated --check?text --merge --random-sort --sort:text --parallel:text --buffer-size:text --ignore-leading-blanks
uniq | W | read write/shown no:+ | -cdDiuz -fsw:text --count --repeated --unique --ignore-case --all-repeated?text --skip-fields:text --skip-chars:text --check-chars:text --zero-terminated
jq gojq | X | filter read | -rcnseSMCajR --raw-output --raw-input --compact-output --slurp --null-input --exit-status --sort-keys --tab --indent:text --arg:text!second --argjson:text!second --args --jsonargs --join-output --ascii-output --color-output --monochrome-output --stream --seq --unbuffered -f:read!first --from-file:read!first --slurpfile:text!second --rawfile:text!second
yq | X | filter read | -rcneSMCjPN -poI:text -i!edit --inplace!edit --in-place!edit -y --raw-output --output-format:text --input-format:text --prettyPrint --null-input --exit-status --no-doc --indent:text --unwrapScalar
man tldr whatis apropos | X | read | -kfaw -Sse:text
pkg-config pkgconf | X | read | --cflags --libs --modversion --exists --list-all --static --print-errors --variable:text --atleast-version:text
dmesg | W | none | -HTtwWxkrLeuP -lfs:text --human --ctime --follow --decode --kernel --level:text --facility:text --since:text --color?text
ss netstat vmstat iostat last w who finger dig nslookup host | W | read | -tulnpaheorisTWxkHw46cdvVqS
sed gsed | X | sed | -nErsuzb -e:sed -i?suffix!edit --expression:sed --in-place?suffix!edit --quiet --silent --regexp-extended --separate --unbuffered --null-data --zero-terminated --posix --debug --sandbox --follow-symlinks
awk gawk mawk nawk | X | awk | -Fv:text --field-separator:text --assign:text --csv --posix --re-interval --traditional
find gfind | X | find |
find. gfind. | X | text | --H --L --P --name:text --iname:text --path:text --ipath:text --wholename:text --type:text --maxdepth:text --mindepth:text --mtime:text --mmin:text --atime:text --ctime:text --cmin:text --newer:text --size:text --empty --print --print0 --printf:text --prune --not --o --or --a --and --user:text --group:text --perm:text --regex:text --iregex:text --regextype:text --ls --quit --true --false --readable --writable --executable --links:text --inum:text --xdev --mount --follow --depth --daystart --delete --exec --execdir --ok --okdir
shellcheck hadolint | W | read/shown | -sefSWo:text -xaC --shell:text --exclude:pattern --format:text --severity:text --color?text
bat batcat | X | read/tree/shown=. | -lahnptTLRrsFGDA1 --long --all --tree --git --level:text --style:text --language:text --plain --color:text --paging:text --icons --exclude-dir:pattern --line-range:text --sort:text
exa eza tokei cloc scc loc | X | read/tree=. | -lahnptTLRrsFGDA1 --long --all --tree --git --level:text --style:text --language:text --plain --color:text --paging:text --icons --exclude-dir:pattern --line-range:text --sort:text
";
