"""Triton's managers of a folder of files, for programs that use them. Compiled kernels are kept by the library itself,
in NEREID_CACHE_DIR, or a folder of knobs.cache.dir where a program sets that."""
import base64
import hashlib
import json
import os
import uuid

from .. import knobs


class CacheManager:
    def __init__(self, key, override=False, dump=False):
        pass

    def get_file(self, filename):
        return None

    def put(self, data, filename, binary=True):
        raise NotImplementedError

    def get_group(self, filename):
        return None

    def put_group(self, filename, group):
        raise NotImplementedError


class FileCacheManager(CacheManager):
    def __init__(self, key, override=False, dump=False):
        self.key = key
        base = knobs.cache.dump_dir if dump else knobs.cache.override_dir if override else knobs.cache.dir
        if not base:
            raise RuntimeError("Could not create or locate cache dir")
        self.cache_dir = os.path.join(base, key)
        self.lock_path = None
        if not override:
            self.lock_path = os.path.join(self.cache_dir, "lock")
            os.makedirs(self.cache_dir, exist_ok=True)

    def _path(self, filename):
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename):
        return os.path.exists(self._path(filename))

    def get_file(self, filename):
        return self._path(filename) if self.has_file(filename) else None

    def get_group(self, filename):
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        with open(path) as f:
            paths = json.load(f).get("child_paths")
        return None if paths is None else {name: p for name, p in paths.items() if os.path.exists(p)}

    def put_group(self, filename, group):
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}", binary=False)

    def put(self, data, filename, binary=True):
        """Written whole or not at all."""
        binary = isinstance(data, bytes)
        if not binary:
            data = str(data)
        path = self._path(filename)
        # a folder of its own, and a name of its own in it: then it takes the other's place at once
        folder = os.path.join(self.cache_dir, f"tmp.pid_{os.getpid()}_{uuid.uuid4()}")
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, filename)
        with open(temporary, "wb" if binary else "w") as f:
            f.write(data)
        os.replace(temporary, path)
        os.removedirs(folder)
        return path


class RemoteCacheBackend:
    def __init__(self, key):
        pass

    def get(self, filenames):
        raise NotImplementedError

    def put(self, filename, data):
        raise NotImplementedError


class RedisRemoteCacheBackend(RemoteCacheBackend):
    def __init__(self, key):
        import redis
        self._key, self._format = key, knobs.redis.key_format
        self._redis = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _name(self, filename):
        return self._format.format(key=self._key, filename=filename)

    def get(self, filenames):
        found = self._redis.mget([self._name(f) for f in filenames])
        return {f: data for f, data in zip(filenames, found) if data is not None}

    def put(self, filename, data):
        self._redis.set(self._name(filename), data)


def _base32(key):
    return base64.b32encode(bytes.fromhex(key)).decode("utf-8").rstrip("=")


def _manager(key, **kwargs):
    cls = knobs.cache.manager_class or FileCacheManager
    return cls(_base32(key), **kwargs)


def get_cache_manager(key):
    return _manager(key)


def get_override_manager(key):
    return _manager(key, override=True)


def get_dump_manager(key):
    return _manager(key, dump=True)


def make_so_cache_key(version_hash, signature, constants, ids, **kwargs):
    text = f"{''.join(map(str, signature.values()))}{constants}{ids}{version_hash}{sorted(kwargs.items())}"
    return _base32(hashlib.sha256(text.encode()).hexdigest())


def triton_key():
    from ... import _native
    return f"nereid-{_native.version()}"


def get_cache_key(src, backend, options, env_vars):
    return f"{triton_key()}-{src.hash()}-{backend.hash()}-{options.hash()}-{sorted(env_vars.items())}"
