# A recipe for Spack: spack repo add share/spack; spack install nearfar
try:
    from spack_repo.builtin.build_systems.generic import Package  # Spack 1.0 and later
except ImportError:
    pass
from spack.package import *


# No CargoPackage: that calls `cargo install` in this folder, which is a workspace and no package.
class Nearfar(Package):
    """Which of a program's memory is far from the threads that use it, which line put it there, what to change."""

    homepage = "https://github.com/nearfar/nearfar"
    git = "https://github.com/nearfar/nearfar.git"

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("emulator", default=True, description="record --on: emulated machines")

    depends_on("rust@1.88:", type="build")
    depends_on("c", type="build")
    depends_on("qemu@9.1:", type="run", when="+emulator")  # built with plugins by default

    def install(self, spec, prefix):
        build = Executable("share/package/build")
        build()
        mkdirp(prefix.bin, prefix.lib.nearfar)
        install("target/release/nearfar", prefix.bin)
        install("target/release/nearfar-inside", prefix.lib.nearfar)
        install("target/release/libnearfar_qemu_plugin.so", prefix.lib.nearfar)
        install_tree("include", prefix.include)
        install_tree("machines", prefix.share.nearfar.machines)
        nearfar = Executable(join_path(prefix.bin, "nearfar"))
        nearfar("man", prefix.share.man.man1)
