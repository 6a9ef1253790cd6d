# A recipe for Spack: spack repo add share/spack; spack install nearfar
from spack.package import *


class Nearfar(CargoPackage):
    """Which of a program's memory is far from the threads that use it, which line put it there, what to change."""

    homepage = "https://github.com/nearfar/nearfar"
    git = "https://github.com/nearfar/nearfar.git"

    license("MIT OR Apache-2.0")

    version("main", branch="main")

    variant("emulator", default=True, description="record --on: emulated machines")

    depends_on("rust@1.88:", type="build")
    depends_on("c", type="build")
    depends_on("qemu+plugins", type="run", when="+emulator")

    def install(self, spec, prefix):
        build = Executable("share/package/build")
        build()
        mkdirp(prefix.bin, prefix.lib.nearfar)
        install("target/release/nearfar", prefix.bin)
        install("target/release/libnearfar_qemu_plugin.so", prefix.lib.nearfar)
        install_tree("include", prefix.include)
        install_tree("machines", prefix.share.nearfar.machines)
        nearfar = Executable(join_path(prefix.bin, "nearfar"))
        nearfar("man", prefix.share.man.man1)
