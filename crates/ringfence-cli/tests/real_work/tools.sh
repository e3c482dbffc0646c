# Archives, copies with attributes, pipes with names, a database, perl, permissions.
set -eu
mkdir -p tree/sub
echo one >tree/one
echo two >tree/sub/two
ln -s ../one tree/sub/link
ln tree/one tree/hard
mkfifo tree/fifo
chmod 750 tree/sub
chmod 4755 tree/one
touch -d '2020-02-02 02:02:02 UTC' tree/one tree/sub/two
tar -cf tree.tar tree
tar -czf tree.tar.gz tree
mkdir unpacked
tar -xzpf tree.tar.gz -C unpacked
cp -a tree copied
for copy in unpacked/tree copied; do
    find "$copy" -printf '%P %y %m %n %l\n' | sort
    stat -c %Y "$copy/one"
done
(seq 1 4 >tree/fifo) &
paste -sd+ tree/fifo
wait
rsync --version >/dev/null 2>&1 || true
mv copied moved
rm -rf unpacked
find moved -type f -newermt '2020-01-01' ! -newermt '2021-01-01' | sort
truncate -s 1M sparse
dd if=/dev/zero of=sparse bs=4096 seek=100 count=1 conv=notrunc status=none
stat -c %s sparse
head -c 16 /dev/urandom | wc -c
echo discarded >/dev/null
[ -c /dev/full ] && (echo x >/dev/full) 2>/dev/null || echo full
sqlite3 data.db 'pragma journal_mode=wal; create table t(n); insert into t values (1),(2),(3); select sum(n) from t;'
sqlite3 data.db 'select count(*) from t'
flock lock echo locked
perl -MPOSIX -MSocket -MFile::Temp -e '
    socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
    if (my $pid = fork) { close $b; print "perl: ", scalar <$a>; waitpid($pid, 0); print "status ", $? >> 8, "\n" }
    else { close $a; print $b "from the child\n"; exit 3 }
    my $temp = File::Temp->new; print $temp "x"; close $temp; print -s "$temp", "\n";
'
perl -ne 'print if /two/' tree/sub/two
id -u >/dev/null
hostname >/dev/null
df . >/dev/null
ps -e >/dev/null
[ "$(nproc)" -ge 1 ]
