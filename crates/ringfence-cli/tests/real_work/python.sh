# A virtual environment, and a test suite that uses processes, locks, sockets and temporary files.
set -eu
python3 -m venv venv
. venv/bin/activate
python -c 'import sys; print(sys.prefix != sys.base_prefix)'
pip --version | cut -d' ' -f1
cat >test_work.py <<'PY'
import multiprocessing, os, socket, sqlite3, subprocess, sys, tempfile, threading, unittest

def square(number):
    return number * number

class Work(unittest.TestCase):
    def test_pool(self):
        with multiprocessing.Pool(3) as pool:
            self.assertEqual(pool.map(square, range(50)), [n * n for n in range(50)])

    def test_spawned_process_and_queue(self):
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=queue.put, args=("hello",))
        process.start()
        self.assertEqual(queue.get(timeout=30), "hello")
        process.join()
        self.assertEqual(process.exitcode, 0)

    def test_shared_memory(self):
        from multiprocessing import shared_memory
        memory = shared_memory.SharedMemory(create=True, size=4096)
        memory.buf[0] = 7
        other = shared_memory.SharedMemory(name=memory.name)
        self.assertEqual(other.buf[0], 7)
        other.close()
        memory.close()
        memory.unlink()

    def test_local_server(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        def answer():
            connection, _ = server.accept()
            connection.sendall(connection.recv(16).upper())
            connection.close()
        threading.Thread(target=answer, daemon=True).start()
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"hello")
            self.assertEqual(client.recv(16), b"HELLO")

    def test_temporary_files_and_subprocess(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data.db")
            with sqlite3.connect(path) as database:
                database.execute("create table t(n)")
                database.executemany("insert into t values(?)", [(n,) for n in range(100)])
            code = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('select sum(n) from t').fetchone()[0])"
            output = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
            self.assertEqual(output.stdout.strip(), b"4950")

if __name__ == "__main__":
    unittest.main(verbosity=0)
PY
python test_work.py 2>&1 | sed 's/ in [0-9.]*s$//'
