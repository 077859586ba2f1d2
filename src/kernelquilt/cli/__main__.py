"""`python -m kernelquilt.cli` is `kq`."""

from kernelquilt.cli import main

if __name__ == "__main__":
    main()
