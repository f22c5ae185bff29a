import atexit
import os
import shutil
import tempfile


def scratch_path(path: str) -> str:
    """Return ``path`` in a temporary directory instead, for what all workers must save and one keeps."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, os.path.basename(os.path.normpath(path)))
