"""``python -m ldpbayes`` is the command line."""

from ldpbayes.cli import main

if __name__ == "__main__":
    main()
