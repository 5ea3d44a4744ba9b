"""A file on an FTP server, opened like the answer of a web server, from any byte on."""

import ftplib
import urllib.error
import urllib.parse


class FtpFile:
    """A file being read from an FTP server.

    It has what the download needs of a web server's answer: ``status`` (206 if it begins at the
    byte that was asked for, 200 if at the first), ``headers`` with the number of bytes to come,
    ``read``, and use as a context manager.

    Args:
        url: Address, with user and password if the server wants them.
        start: First byte wanted.
        timeout: Seconds to wait for an answer.

    Raises:
        URLError: If there is no such server, it refuses, or it has no such file.
        TimeoutError: If it does not answer in time.
        ConnectionError: If the connection breaks, or the server is busy.
    """

    def __init__(self, url: str, start: int, timeout: float):
        parts = urllib.parse.urlsplit(url)
        path = urllib.parse.unquote(parts.path.lstrip("/"))
        self._control = ftplib.FTP(timeout=timeout)
        try:
            self._control.connect(parts.hostname, parts.port or ftplib.FTP_PORT)
            self._control.login(parts.username or "", parts.password or "")
            self._control.voidcmd("TYPE I")
            size = self._control.size(path)
            self.status = 206 if start else 200
            try:
                data = self._control.transfercmd(f"RETR {path}", rest=start or None)
            except ftplib.error_perm:
                if not start:
                    raise
                self.status, start = 200, 0  # a server that cannot begin in the middle
                data = self._control.transfercmd(f"RETR {path}")
        except ftplib.error_perm as error:
            self._control.close()
            raise urllib.error.URLError(str(error)) from None
        except (ftplib.Error, EOFError) as error:
            self._control.close()
            raise ConnectionError(str(error) or "the server hangs up") from None
        except OSError as error:
            self._control.close()
            if isinstance(error, TimeoutError | ConnectionResetError | BrokenPipeError):
                raise
            raise urllib.error.URLError(error) from None  # no such host, nobody listens there
        self.headers = {} if size is None else {"Content-Length": f"{max(0, size - start)}"}
        self._data = data.makefile("rb")
        data.close()  # the file above keeps the connection

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; none at the end."""
        return self._data.read(size)

    def __enter__(self) -> "FtpFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()
        self._control.close()
