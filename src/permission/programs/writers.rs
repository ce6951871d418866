//! Programs that make, change and remove files.

pub(super) const ROWS: &str = "\
cp gcp | W | read into | -pfinuvPdxTHbZ -ls!link --link!link --symbolic-link!link -rRa!tree -L!follow --dereference!follow -t:into!first --recursive!tree --archive!tree --parents!parents --target-directory:into!first --force --interactive --no-clobber --update?text --verbose --preserve?text --no-preserve:text --no-dereference --one-file-system --no-target-directory --backup?text --sparse?text --reflink?text --strip-trailing-slashes --remove-destination --attributes-only -S:suffix --suffix:suffix
mv | W | move | -finuvTbZ -t:into!first --target-directory:into!first --force --interactive --no-clobber --update?text --verbose --no-target-directory --backup?text --strip-trailing-slashes -S:suffix --suffix:suffix
ln | W | move link | -sfinvrbLPT -t:into!first --target-directory:into!first --symbolic --force --interactive --no-dereference --verbose --relative --logical --physical --backup?text --no-target-directory -S:suffix --suffix:suffix
install | X | read into | -d!written --directory!written -DvpcbCT -mog:text -t:into!first --mode:text --owner:text --group:text --target-directory:into!first
link touch mkdir rmdir truncate tee unlink shred | H | write | -dtsmn:text -r:read --date:text --reference:read --size:text --mode:text
rm | H | write | -rR!cut --recursive!cut
chmod chown chgrp | H | text write | -rwxXstugoa!first -L!follow -R!cut --recursive!cut --reference:read!first
dd | H | dd |
tar gtar | X | tar no:@ | -t!list -dvzjJpkomSZalO -h!follow -cruA!create -x!extract --create!create --extract!extract --get!extract --list!list --append!create --update!create -f:archive -bKNV:text -L:text!follow -g:write -X:read -T:names --remove-files!effect -C:cd --directory:cd --file:archive --exclude:pattern --exclude-from:read --exclude-vcs --gzip --bzip2 --xz --zstd --verbose --strip-components:text --wildcards --no-same-owner --same-permissions --numeric-owner --owner:text --group:text --mode:text --mtime:text --sort:text --keep-old-files --overwrite --dereference!follow --auto-compress --files-from:names --one-file-system --totals --warning:text --preserve-permissions --no-recursion --force-local --format:text --to-stdout
zip | X | write read/links/ended | -qj9ruydvfFo0 -m!all -in:text -x:pattern --exclude:pattern --recurse-paths --quiet
unzip | X | read unpack | -qnaoCjL -lvtzpZ!list -P:text -d:unpack -x:text
gzip pigz gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 | W | write/stem | -dkfvcqtl -r!all --recursive!all --keep --stdout --decompress --force --best --fast --verbose --test --list --threads:text -T:text
patch | W | write/cut/ended=. | -NRbEfstu -pF:text -i:read -d:cd --dry-run --strip:text --input:read --directory:cd --forward --reverse --force --quiet --silent --batch --unified
rsync | X | read/tree into | -avzrlptgoDnuPhHAXSxWcqKI -R!parents -kL!follow -B:text -T:write --delete!effect --del!effect --delete-after!effect --delete-before!effect --delete-excluded!effect --remove-source-files!effect --exclude:pattern --include:pattern --archive --verbose --compress --dry-run --progress --partial --stats --human-readable --checksum --recursive --update --ignore-existing --exclude-from:read --include-from:read --info:text --bwlimit:text --links --copy-links!follow --times --perms --existing --size-only --numeric-ids --no-perms --no-owner --no-group --chmod:text --inplace --log-file:write
split | X | read write/prefix | -d -abCln:text --bytes:text --lines:text --numeric-suffixes?text --suffix-length:text --additional-suffix:text --number:text
mktemp | H | write/temporary |
nano pico | X | write no:+ | -wlmSiE -Y:text
vim vi nvim view | X | write/stdin plain | -nRdOopmM
gpg gpg2 | X | read/stem | -avdqbs -ru:text --verify --armor --decrypt --detach-sign --list-keys --list-secret-keys --fingerprint --batch --yes --quiet --verbose --recipient:text --local-user:text -k -K --sign --clearsign --encrypt -e -o:write --output:write
ssh mosh | X | host login | -46AaCfGgKkMNnqsTtVvXxYy -BbcDeiJLlmpRWw:text
scp sftp | X | read into/stdin | -r!links -pqCv346BT -Plc:text -i:read
curl | X | text inside remote globs parts | -sSLfiIkvgGNaq#46Z -XAuemxrYyUE:text -Hd:sent -b:file -w:write-out -F:sent -T:file --data:sent --data-raw:text --data-binary:sent --data-urlencode:sent --json:sent --header:sent --request:text --user:text --user-agent:text --url:url --form:sent \
 --max-time:text --connect-timeout:text --retry:text --retry-delay:text --location --silent --show-error --fail --fail-with-body --include --head --compressed --insecure --verbose --globoff --get --no-progress-meter --http1.1 --http2 --referer:text --cookie:file --range:text \
 --limit-rate:text --ipv4 --ipv6 --progress-bar --write-out:write-out --no-buffer --upload-file:file --form-string:text --oauth2-bearer:text --basic --parallel --retry-all-errors --retry-connrefused --max-redirs:text --cacert:read --proto:text --tlsv1.2 \
 -o:write --output:write -D:write --dump-header:write -c:write --cookie-jar:write --trace:write --trace-ascii:write --stderr:write --output-dir:outdir --etag-save:write --hsts:write --alt-svc:write --libcurl:write --create-dirs -OJ!effect --remote-name!effect --remote-name-all!effect --remote-header-name!effect
wget | X | text/named | -rmpNc!here -qSvd46knEKHL -TtQUlwADRI:text --quiet --no-verbose --timeout:text --tries:text --header:text --user-agent:text --spider --continue!here --no-check-certificate --show-progress --post-data:text --method:text --body-data:text --max-redirect:text --timestamping!here --server-response --recursive!here --level:text --no-parent --mirror!here --accept:text --reject:text --wait:text --limit-rate:text --no-clobber --content-disposition!here \
 -O:write --output-document:write -o:write --output-file:write -a:write --append-output:write -P:outdir --directory-prefix:outdir --save-cookies:write --rejected-log:write --warc-file:write
openssl: x509 req enc dgst genrsa rsa ec ecparam genpkey pkey pkcs12 pkcs8 rand s_client verify version ciphers crl ca base64 list passwd speed asn1parse md5 sha1 sha256 sha512 dhparam prime help | X | read | --in:read --out:write --text --noout --sha256 --base64 --hex --d --e --salt --pbkdf2 --nodes --days:text --subj:text --newkey:text --x509 --keyout:write --connect:text --servername:text --showcerts --dates --enddate --issuer --subject --fingerprint --pubkey --pubin --key:read --cert:read --CAfile:read --inform:text --outform:text --a --aes-256-cbc --req --new --ext:text
sqlite3 | X | sql write parts | --header --csv --json --line --readonly --batch --column
psql | X | sql parts no:\\,system | -lAtqxX -dhpUvPRT:text -c:sql -o:pipe --output:pipe -L:write --log-file:write --host:text --port:text --username:text --user:text --dbname:text --command:sql --password?text --no-password --tuples-only --csv
mysql mariadb | X | sql parts no:\\,system | -Atqv -udhP:text -e:sql --execute:sql -p?text --host:text --port:text --user:text --database:text --password?text --table --batch --quick --silent --skip-column-names
ed red dc m4 edlin ftp lftp mail mailx telnet xdg-open open | X | input |
convert identify composite montage | X | read into plain | --version
magick mogrify | X | write plain | --version
";
